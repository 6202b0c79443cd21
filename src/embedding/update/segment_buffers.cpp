#include "segment_buffers.h"

namespace dlrm {

void SegmentBuffers::reserve(View<const int64_t> capacities, View<const char> weighted) {
  size_t total = 0;
  for (const int64_t n : capacities) total += static_cast<size_t>(n);
  rows_.reserve(total);
  occurrences_.reserve(total);
  starts_.reserve(total + capacities.size());
  counts_.reserve(capacities.size());
  segments_.assign(capacities.size(), {});
  size_t weights = 0;
  for (size_t i = 0; i < weighted.size(); ++i) {
    if (weighted[i]) weights += static_cast<size_t>(capacities[i]);
  }
  weights_.reserve(weights);
  float* next_weight = weights_.data();
  size_t at = 0;
  for (size_t i = 0; i < capacities.size(); ++i) {
    const auto n = static_cast<size_t>(capacities[i]);
    segments_[i].rows = {rows_.data() + at, n};
    segments_[i].occurrences = {occurrences_.data() + at, n};
    segments_[i].starts = {starts_.data() + at + i, n + 1};
    segments_[i].count = {counts_.data() + i, 1};
    at += n;
    if (weighted.empty() || !weighted[i]) continue;
    segments_[i].weights = {next_weight, n};
    next_weight += n;
  }
}

}  // namespace dlrm
