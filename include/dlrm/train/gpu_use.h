#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "dlrm/device/utilisation.h"

namespace dlrm {

/// The mean utilisation of a GPU over a period, sampled from its driver.
class GpuUse {
 public:
  /// `probe` null: there are no figures.
  explicit GpuUse(std::unique_ptr<UtilisationProbe> probe);

  /// A stretch begins at `now`, seconds of any clock: what was read before stays, what the driver's
  /// counters hold of the time before is left out.
  void begin(double now);
  /// To be called often: reads where kInterval seconds have passed since the last time.
  void sample(double now);
  /// The mean of the shares, and of the memory the most; nothing where nothing was read.
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
