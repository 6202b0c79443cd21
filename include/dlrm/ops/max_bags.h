#pragma once
// Bags that are pooled by the maximum of each column.
#include <cstdint>

#include "dlrm/core/view.h"
#include "dlrm/ops/embedding.h"
#include "dlrm/ops/operation.h"
#include "dlrm/ops/types.h"

namespace dlrm {

/// pooled[bag, c] = the largest element of column c in the rows of the bag's ids, for each group;
/// NaN if one is NaN, and zeros for an empty bag. Groups have no scale and no weights. Reads
/// nnz·width elements and writes bags·width: memory-bound.
struct MaxBagForward {
  View<const BagGroup> groups;

  static constexpr const char* kName = "max_bag_forward";
  template <class V>
  void operands(V& v) {
    v.inout("groups", groups);
  }
};

/// The gradient of each id's row: gradients[k, c] = pooled[bag, c] if id k, counted from the first
/// one of the group, is the first in its bag with the largest element in column c, and otherwise 0.
/// It finds the ids again in `table`, which must be as it was in MaxBagForward. Rows of `gradients`
/// beyond the last id keep their values. Both matrices have one type.
struct MaxBagBackward {
  RowTable table;
  IdGroup ids;
  Matrix pooled;     ///< [bags, width] the gradients of pooled vectors
  Matrix gradients;  ///< [capacity, width]

  static constexpr const char* kName = "max_bag_backward";
  template <class V>
  void operands(V& v) {
    v.in("table", table), v.in("ids", ids), v.in("pooled", pooled);
    v.inout("gradients", gradients);
  }
};

/// Offsets of bags that have one of the group's ids each: offsets[k] = first + min(k, n), where n
/// ids from `first` on are in the group.
struct SeparateIds {
  IdGroup ids;
  View<int64_t> offsets;  ///< [capacity + 1]

  static constexpr const char* kName = "separate_ids";
  template <class V>
  void operands(V& v) {
    v.in("ids", ids), v.out("offsets", offsets);
  }
};

#define DLRM_MAX_BAG_OPERATIONS(X) X(MaxBagForward) X(MaxBagBackward) X(SeparateIds)

}  // namespace dlrm
