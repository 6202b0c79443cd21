#pragma once
#include <vector>

#include "dlrm/ops/embedding.h"

#include "layout.h"

namespace dlrm {

/// The bags of `ids` over `table`. Where they are pooled, and their scale, are left open.
inline BagGroup bags_of(const IdGroup& ids, const RowTable& table) {
  BagGroup group;
  group.table = table;
  group.ids = ids.ids;
  group.offsets = ids.offsets;
  group.bags = ids.bags;
  group.capacity = ids.capacity;
  group.weights = ids.weights;
  return group;
}

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
