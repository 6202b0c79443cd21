#pragma once
#include <cstdint>
#include <vector>

namespace dlrm {

/// Durations of steps: the exact mean, and percentiles within 0.3 %. The memory does not depend on
/// the number of steps. add() allocates nothing.
class StepTimes {
 public:
  StepTimes();
  void add(double seconds);
  int64_t count() const { return count_; }
  double mean_ms() const;
  /// The duration that a share `q` of all steps does not exceed. 0 if there are no steps.
  double percentile_ms(double q) const;

 private:
  std::vector<int64_t> buckets_;  // geometric, from 1 us
  int64_t count_ = 0;
  double total_ = 0;
};

}  // namespace dlrm
