#pragma once
// Operations on whole parameters.
#include <cstdint>

#include "dlrm/core/view.h"
#include "dlrm/ops/operation.h"
#include "dlrm/ops/types.h"

namespace dlrm {

/// One update of a dense parameter w by its gradient g. See OptimizerRule for the formulas. For a
/// tensorwise rule, w is one whole tensor. For other rules, w may be any part of several tensors.
struct DenseUpdate {
  OptimizerStep step;
  View<float> w;        ///< [n]
  View<const float> g;  ///< [n]
  View<float> s1, s2;   ///< [n], or empty if the rule has no such state
  View<BFloat16> copy;  ///< [n] receives the new weights rounded to bf16, or empty

  static constexpr const char* kName = "dense_update";
  template <class V>
  void operands(V& v) {
    v.in("step", step), v.inout("w", w), v.in("g", g), v.inout("s1", s1), v.inout("s2", s2);
    v.inout("copy", copy);
  }
};

/// table[r, c] = U(-bound, bound), drawn for the global element (first_row + r, first_column + c)
/// of `key`; see uniform_row.
struct FillUniform {
  uint64_t key;
  int64_t first_row;
  int64_t first_column;
  float bound;
  RowTable table;

  static constexpr const char* kName = "fill_uniform";
  template <class V>
  void operands(V& v) {
    v.inout("table", table);
  }
};

#define DLRM_PARAMETER_OPERATIONS(X) X(DenseUpdate) X(FillUniform)

}  // namespace dlrm
