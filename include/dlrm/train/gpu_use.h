#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "dlrm/device/utilisation.h"

namespace dlrm {

/// The mean utilisation of a GPU over a period, sampled from its driver.
class GpuUse {
 public:
  /// If `probe` is null, there are no figures.
  explicit GpuUse(std::unique_ptr<UtilisationProbe> probe);

  /// Begins an interval of the period at `now`, in seconds of any clock. Earlier readings are kept.
  /// The next reading is at least kInterval seconds later, because the driver's counters look back.
  void begin(double now);
  /// Call it often. It reads the figures if kInterval seconds have passed since the last reading.
  void sample(double now);
  /// The means of the shares, and the maximum of the memory used. Empty if nothing was read.
  std::optional<Utilisation> mean() const;

  /// Seconds; the driver's counters look back 1/6 to 1 s.
  static constexpr double kInterval = 0.2;

 private:
  std::unique_ptr<UtilisationProbe> probe_;
  Utilisation sums_;
  int64_t readings_ = 0;
  double due_ = 0;
};

}  // namespace dlrm
