#pragma once
#include "dlrm/core/targets.h"
#include "dlrm/core/view.h"
#include "dlrm/ops/operation.h"

namespace dlrm {

/// Binary cross-entropy with logits l, labels y and weights w, computed in fp32:
/// loss[0] = Σ w·(max(l, 0) - l·y + log(1 + exp(-|l|))), summed in fp64 in a fixed order;
/// dlogits = (σ(l) - y)·scale·w. Weights of 1 give the bits of no weights.
struct BceWithLogits {
  Matrix logits;    ///< [b, 1]
  Targets targets;  ///< [b]; NaN: the label is missing, adds no loss, and its dlogit is 0
  float scale;
  View<double> loss;  ///< [1]
  Matrix dlogits;     ///< [b, 1]

  static constexpr const char* kName = "bce_with_logits";
  template <class V>
  void operands(V& v) {
    v.in("logits", logits), v.in("labels", targets.labels);
    if (targets.weighted()) v.in("weights", targets.weights);
    v.inout("loss", loss, {.absolute = 1e-12, .relative = 1e-6});
    v.out("dlogits", dlogits, {.absolute = 0x1p-21 * (scale < 0 ? -scale : scale)});
  }
};

/// p = σ(logits), in fp32.
struct Sigmoid {
  Matrix logits;  ///< [b, 1]
  View<float> p;  ///< [b]

  static constexpr const char* kName = "sigmoid";
  template <class V>
  void operands(V& v) {
    v.in("logits", logits), v.inout("p", p, {.absolute = 0x1p-21});
  }
};

#define DLRM_LOSS_OPERATIONS(X) X(BceWithLogits) X(Sigmoid)

}  // namespace dlrm
