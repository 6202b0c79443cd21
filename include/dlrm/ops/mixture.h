#pragma once
// Mixtures of experts (Ma et al., "Modeling task relationships in multi-task learning with
// multi-gate mixture-of-experts", KDD 2018).
#include <cstdint>

#include "dlrm/core/experts.h"
#include "dlrm/core/view.h"
#include "dlrm/ops/operation.h"

namespace dlrm {

/// Where a mixture has its columns. Column `e·step + c` of the experts' outputs is output c of
/// expert e. Column `t·experts + e` of logits and shares belongs to expert e of task t, and column
/// `t·step + c` of the mixture is output c of task t. Columns from `outputs` to `step` are not
/// touched.
struct MixtureShape {
  int64_t tasks = 0;
  int64_t experts = 0;  ///< at most kMostExperts
  int64_t outputs = 0;  ///< of an expert
  int64_t step = 0;     ///< at least outputs
};

/// p_t = softmax(l_t) over the experts, y_t = Σ_e p_te x_e. Sums are in fp32, in the experts'
/// order.
struct MixForward {
  MixtureShape shape;
  Matrix logits;             ///< [b, tasks·experts]
  Matrix x;                  ///< [b, experts·step]
  MatrixView<float> shares;  ///< p [b, tasks·experts] written
  Matrix y;                  ///< [b, tasks·step] written

  static constexpr const char* kName = "mix_forward";
  template <class V>
  void operands(V& v) {
    v.in("logits", logits), v.in("x", x);
    v.out("shares", shares, {.absolute = 1e-6, .relative = 1e-5});
    v.out("y", y, {.terms = shape.experts, .absolute = 1e-5, .relative = 1e-5});
  }
};

/// The gradients of MixForward. With g_te = dy_t·x_e: dl_te = p_te (g_te - Σ_e' p_te' g_te'), and
/// dx_e = Σ_t p_te dy_t.
struct MixBackward {
  MixtureShape shape;
  MatrixView<const float> shares;  ///< [b, tasks·experts]
  Matrix x;                        ///< [b, experts·step]
  Matrix dy;                       ///< [b, tasks·step]
  Matrix dlogits;                  ///< [b, tasks·experts] written
  Matrix dx;                       ///< [b, experts·step] written

  static constexpr const char* kName = "mix_backward";
  template <class V>
  void operands(V& v) {
    v.in("shares", shares), v.in("x", x), v.in("dy", dy);
    v.out("dlogits", dlogits, {.absolute = 1e-4, .relative = 1e-4});
    v.out("dx", dx, {.terms = shape.tasks, .absolute = 1e-5, .relative = 1e-5});
  }
};

#define DLRM_MIXTURE_OPERATIONS(X) X(MixForward) X(MixBackward)

}  // namespace dlrm
