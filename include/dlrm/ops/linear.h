#pragma once
// Linear layers: z = x wᵀ + bias, y = act(z), and their gradients. b is the local batch. Matrices
// of one operation have one type, fp32 or bf16. Gradients of parameters are fp32.
#include <cstdint>

#include "dlrm/core/view.h"
#include "dlrm/ops/operation.h"
#include "dlrm/ops/types.h"

namespace dlrm {

/// One bit for each element of a relu layer's output, set if the element is above 0.
struct ReluMask {
  void* bits = nullptr;  ///< [b, stride] bits: bit j of row i is bit j % 8 of byte (i·stride + j)/8
  int64_t stride = 0;    ///< bits from row to row, a multiple of 128
  bool written = false;  ///< by the last forward
};

/// z = x wᵀ + bias + added, y = act(z). z is written only if needs_input(act). act may be computed
/// from z before or after z is rounded. An execution may round the bias to bf16 if y is bf16. A NaN
/// stays a NaN, except in relu with a bias on a GPU.
struct LinearForward {
  Matrix x;                ///< [b, in]
  Matrix w;                ///< [out, in]
  View<const float> bias;  ///< [out], or empty
  Activation act = Activation::kNone;
  Matrix y;  ///< [b, out]
  Matrix z;  ///< [b, out], or null
  /// [b, out] of y's type; may be y. Null: nothing is added. Only if act is kNone, and x and w have
  /// columns. The sum is rounded once.
  Matrix added = {};

  // Read only if Ops::fuses_layers().
  View<const BFloat16> rounded_bias = {};  ///< the bias rounded to bf16, or empty
  ReluMask* mask = nullptr;                ///< receives the signs of a relu layer, or null

  static constexpr const char* kName = "linear_forward";
  template <class V>
  void operands(V& v) {
    v.in("x", x), v.in("w", w), v.in("bias", bias), v.in("rounded bias", rounded_bias);
    if (added.data) v.in("added", added);
    v.out("y", y);
    if (needs_input(act)) v.out("z", z);
  }
};

/// dx = dz w + added, rounded once.
struct LinearBackwardInput {
  Matrix dz;          ///< [b, out]
  Matrix w;           ///< [out, in]
  Matrix dx;          ///< [b, in]
  Matrix added = {};  ///< [b, in] of dx's type; may be dx. Null: nothing is added

  static constexpr const char* kName = "linear_backward_input";
  template <class V>
  void operands(V& v) {
    v.in("dz", dz), v.in("w", w);
    if (added.data) v.in("added", added);
    v.out("dx", dx, sum_of(dz.cols + (added.data ? 1 : 0)));
  }
};

/// dw = dzᵀ x; dbias = column sums of dz. Zeros if b is 0.
struct LinearBackwardWeight {
  Matrix dz;             ///< [b, out]
  Matrix x;              ///< [b, in]
  MatrixView<float> dw;  ///< [out, in]
  View<float> dbias;     ///< [out], or empty

  static constexpr const char* kName = "linear_backward_weight";
  template <class V>
  void operands(V& v) {
    v.in("dz", dz), v.in("x", x);
    v.out("dw", dw, sum_of(dz.rows)), v.out("dbias", dbias, sum_of(dz.rows));
  }
};

/// dy ← dy ⊙ act'(z), from z if needs_input(act), otherwise from y = act(z). The slope of relu is 0
/// where y is 0. The other of y and z is not read.
struct ActivationBackward {
  Activation act;
  Matrix y, z, dy;  ///< [b, n]

  static constexpr const char* kName = "activation_backward";
  template <class V>
  void operands(V& v) {
    const bool smooth = act != Activation::kNone && act != Activation::kRelu;
    if (needs_input(act)) {
      v.in("z", z);
    } else if (act != Activation::kNone) {
      v.in("y", y);
    }
    v.inout("dy", dy, {.initial = smooth ? 0x1p-20 : 0.0});
  }
};

/// The layer below: its output y is the input x of this layer. This layer's backward can include
/// the activation of the layer below.
struct LayerBelow {
  Activation act = Activation::kNone;
  Matrix y, z;
  const ReluMask* mask = nullptr;
  View<float> dbias;       ///< may be written
  bool has_dbias = false;  ///< whether dbias was written
};

/// The backward of a layer: dz = dy ⊙ act'(z); dx = dz w; dw = dzᵀ x; dbias = column sums of dz.
struct LinearBackward {
  Activation act = Activation::kNone;
  Matrix y;              ///< [b, out] not read if act is kNone
  Matrix z;              ///< [b, out] read if needs_input(act)
  Matrix dy;             ///< [b, out] undefined afterwards
  Matrix x;              ///< [b, in]
  Matrix w;              ///< [out, in]
  Matrix dx;             ///< [b, in], or null
  MatrixView<float> dw;  ///< [out, in]; null, if deferred: dw and dbias are left out
  View<float> dbias;     ///< [out], or empty
  Matrix added;          ///< [b, in] dx = dz w + added, rounded once; may be dx. Null: nothing

  // Only if Ops::fuses_layers().
  LayerBelow* below = nullptr;  ///< dx ← dx ⊙ act'(z) of the layer below
  /// dw and dbias may be computed later, on Ops::gradient_stream(). Until then dy and x must keep
  /// their values.
  bool deferred = false;

  static constexpr const char* kName = "linear_backward";
  template <class V>
  void operands(V& v) {
    if (needs_input(act)) v.in("z", z);
    if (act != Activation::kNone) v.in("y", y);
    v.inout("dy", dy), v.in("x", x), v.in("w", w);
    if (added.data) v.in("added", added);
    if (dx.data) v.out("dx", dx);
    v.out("dw", dw), v.out("dbias", dbias);
  }
};

/// A dense parameter and its optimizer state, as flat arrays.
struct DenseTensor {
  View<float> values;
  View<float> state1, state2;  ///< empty if the rule has none
  View<BFloat16> copy;         ///< the rounded values that products read, or empty
};

/// LinearBackward, then DenseUpdate of the weight [out, in] and of the bias [out]. The result is
/// bitwise the same as that of the separate operations. layer.w views weight.values or weight.copy.
/// dw and dbias are undefined afterwards.
struct LinearBackwardUpdate {
  OptimizerStep step;
  LinearBackward layer;
  DenseTensor weight;
  DenseTensor bias;  ///< empty if dbias is

  static constexpr const char* kName = "linear_backward_update";
  template <class V>
  void operands(V& v) {
    v.in("step", step), layer.operands(v), v.inout("weight", weight), v.inout("bias", bias);
  }
};

#define DLRM_LINEAR_OPERATIONS(X) \
  X(LinearForward)                \
  X(LinearBackwardInput)          \
  X(LinearBackwardWeight)         \
  X(ActivationBackward)
#define DLRM_LINEAR_SEQUENCES(X) \
  X(LinearBackward)              \
  X(LinearBackwardUpdate)

}  // namespace dlrm
