#pragma once
#include <cstddef>
#include <memory>
#include <optional>

#include "dlrm/device/device.h"

namespace dlrm {

/// The current use of a GPU, as its driver measures it.
struct Utilisation {
  double busy_share = 0;         ///< share of the last sampling period in which a kernel ran
  double memory_busy_share = 0;  ///< share of it in which memory was read or written
  size_t memory_used = 0;        ///< bytes, by all programs
  size_t memory_total = 0;
};

/// Reads the use of a GPU. Thread-safe. A reading takes well under a millisecond. It never waits
/// for the GPU.
class UtilisationProbe {
 public:
  virtual ~UtilisationProbe() = default;
  /// Empty if the driver does not answer.
  virtual std::optional<Utilisation> read() = 0;
};

/// A probe of `device`. Null if there are no figures: on a CPU, in the emulator, or if NVML is
/// missing. NVML is loaded at run time.
std::unique_ptr<UtilisationProbe> make_utilisation_probe(Device& device);

}  // namespace dlrm
