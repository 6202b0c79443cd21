#include "dlrm/train/step_times.h"

#include <algorithm>
#include <cmath>

namespace dlrm {

namespace {

constexpr double kSmallest = 1e-6;  // seconds
constexpr double kPerOctave = 128;  // a bucket is 0.54 % wide
constexpr int kBuckets = 40 * 128;  // up to 12 days

}  // namespace

StepTimes::StepTimes() : buckets_(kBuckets, 0) {}

void StepTimes::add(double seconds) {
  const double place = kPerOctave * std::log2(std::max(seconds, kSmallest) / kSmallest);
  const auto bucket = static_cast<size_t>(std::min<double>(place, kBuckets - 1));
  ++buckets_[bucket];
  ++count_;
  total_ += seconds;
}

double StepTimes::mean_ms() const {
  return count_ == 0 ? 0 : 1e3 * total_ / static_cast<double>(count_);
}

double StepTimes::percentile_ms(double q) const {
  if (count_ == 0) return 0;
  const auto wanted =
      std::max<int64_t>(1, static_cast<int64_t>(std::ceil(q * static_cast<double>(count_))));
  int64_t below = 0;
  int bucket = 0;
  while (bucket < kBuckets - 1 && (below += buckets_[static_cast<size_t>(bucket)]) < wanted) {
    ++bucket;
  }
  return 1e3 * kSmallest * std::exp2((bucket + 0.5) / kPerOctave);
}

}  // namespace dlrm
