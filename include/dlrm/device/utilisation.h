#pragma once
#include <cstddef>
#include <memory>
#include <optional>

#include "dlrm/device/device.h"

namespace dlrm {

/// What a GPU is doing at this moment, as its driver counts it.
struct Utilisation {
  double busy_share = 0;         ///< of the driver's last sampling period, in which a kernel ran
  double memory_busy_share = 0;  ///< likewise, memory read or written
  size_t memory_used = 0;        ///< bytes, by all programs
  size_t memory_total = 0;
};

/// Reads it. Thread-safe; a reading takes well under a millisecond and never waits for the GPU.
class UtilisationProbe {
 public:
  virtual ~UtilisationProbe() = default;
  /// Nothing where the driver does not answer.
  virtual std::optional<Utilisation> read() = 0;
};

/// A probe of `device`, or null where there are no figures: on a CPU, in the emulator, or where
/// NVML (loaded at run time) is missing.
std::unique_ptr<UtilisationProbe> make_utilisation_probe(Device& device);

}  // namespace dlrm
