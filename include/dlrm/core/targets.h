#pragma once
#include <cstddef>
#include <vector>

#include "dlrm/core/view.h"

namespace dlrm {

/// What some samples' predictions are compared with.
struct Targets {
  View<const float> labels;   ///< [b]
  View<const float> weights;  ///< [b], or empty: every sample counts once

  size_t size() const { return labels.size(); }
  bool weighted() const { return !weights.empty(); }
  Targets part(size_t begin, size_t count) const {
    return {labels.subspan(begin, count), weighted() ? weights.subspan(begin, count) : weights};
  }
};

/// Targets that grow. Either all that is appended has weights, or nothing has.
struct TargetList {
  std::vector<float> labels, weights;

  void append(const Targets& more) {
    labels.insert(labels.end(), more.labels.begin(), more.labels.end());
    weights.insert(weights.end(), more.weights.begin(), more.weights.end());
  }
  Targets view() const { return {labels, weights}; }
};

}  // namespace dlrm
