#pragma once
#include <cmath>
#include <vector>

#include "dlrm/ops/embedding.h"

#include "checked/host_image.h"

namespace dlrm::checked {

/// The used part of SegmentedRows in the host's memory.
struct HostRuns {
  std::vector<int64_t> count, rows, starts;
  std::vector<Occurrence> occurrences;
  std::vector<float> weights;

  HostRuns(HostImage& host, const SegmentedRows& runs)
      : count(host.of(runs.count.first(1))),
        rows(host.of(runs.rows.first(unique()))),
        starts(host.of(runs.starts.first(unique() + 1))),
        occurrences(host.of(runs.occurrences.first(static_cast<size_t>(starts.back())))) {
    if (!runs.weights.empty()) weights = host.of(runs.weights.first(occurrences.size()));
  }
  size_t unique() const { return static_cast<size_t>(count[0]); }
  SegmentedRows view() { return {rows, starts, occurrences, count, weights}; }
  /// The same with the magnitudes of weights, which are in `sizes` [occurrences].
  SegmentedRows sized(std::vector<float>& sizes) {
    sizes = weights;
    for (float& size : sizes) size = std::abs(size);
    return {rows, starts, occurrences, count, sizes};
  }
};

/// Gradients of pooled bags in the host's memory.
struct HostGradients {
  std::vector<Copy> pooled, sizes;
  std::vector<std::vector<float>> scales;
  std::vector<BagGradient> plain, sized;

  HostGradients(HostImage& host, View<const BagGradient> gradients) {
    for (const BagGradient& g : gradients) {
      pooled.push_back(host.of(g.pooled));
      sizes.push_back(Copy::magnitude(pooled.back().matrix()));
      scales.push_back(host.list(g.scale, g.pooled.rows));
      const float* scale = scales.back().empty() ? nullptr : scales.back().data();
      plain.push_back({pooled.back().matrix(), scale});
      sized.push_back({sizes.back().floats(), scale});
    }
  }
};

}  // namespace dlrm::checked
