#pragma once
// Operations on whole parameters.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "dlrm/core/random.h"
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

/// g ← g·min(1, max_norm/(‖g‖ + 1e-6)) with the L2 norm of all of g, summed in fp64 in an order
/// that depends only on n: torch.nn.utils.clip_grad_norm_. A norm that is not finite leaves g
/// unchanged.
struct ClipNorm {
  View<float> g;    ///< [n]
  double max_norm;  ///< above 0

  static constexpr const char* kName = "clip_norm";
  template <class V>
  void operands(V& v) {
    v.inout("g", g, {.relative = 0x1p-22});
  }

  /// The factor on g, from the sum of its squares.
  static double factor(double square_sum, double max_norm) {
    const double norm = std::sqrt(square_sum);
    return std::isfinite(norm) ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0;
  }
};

/// table[r, c] = the value before training of the global element (first_row + r, first_column + c)
/// of `key`; see initial_row.
struct FillRows {
  uint64_t key;
  int64_t first_row;
  int64_t first_column;
  RowInit init;
  RowTable table;

  static constexpr const char* kName = "fill_rows";
  template <class V>
  void operands(V& v) {
    v.inout("table", table);
  }
};

#define DLRM_PARAMETER_OPERATIONS(X) X(DenseUpdate) X(ClipNorm) X(FillRows)

}  // namespace dlrm
