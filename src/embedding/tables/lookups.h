#pragma once
#include <vector>

#include "dlrm/ops/embedding.h"

#include "layout.h"

namespace dlrm {

/// Groups of bags to look up, by how they are pooled.
struct Lookups {
  std::vector<BagGroup> sums;  ///< and means, which have scales
  std::vector<BagGroup> maxima;

  std::vector<BagGroup>& of(const FeaturePlace& feature) { return feature.max ? maxima : sums; }
  void clear() {
    sums.clear();
    maxima.clear();
  }
};

}  // namespace dlrm
