#pragma once
// Layer normalisation (Ba et al., "Layer normalization", 2016; torch.nn.LayerNorm).
#include <cstdint>

#include "dlrm/core/view.h"
#include "dlrm/ops/operation.h"
#include "dlrm/ops/types.h"

namespace dlrm {

/// Added to a variance.
inline constexpr double kLayerNormEps = 1e-5;

/// n = (x - mean)/√(var + 1e-5) over the columns of each row, z = scale ⊙ n + shift, y = act(z).
/// var is the mean of (x - mean)². z is written only if needs_input(act), before or after which act
/// is computed from it. Sums are in fp32.
struct LayerNormForward {
  Matrix x;                 ///< [b, n]
  View<const float> scale;  ///< [n]
  View<const float> shift;  ///< [n]
  Activation act;
  Matrix y;                     ///< [b, n]
  Matrix z;                     ///< [b, n], or null
  View<float> means;            ///< [b] written, for the backward pass
  View<float> inverse_spreads;  ///< [b] written: 1/√(var + 1e-5)

  static constexpr const char* kName = "layer_norm_forward";
  template <class V>
  void operands(V& v) {
    constexpr Tolerance kOfRows = {.absolute = 2e-4, .relative = 1e-4};
    v.in("x", x), v.in("scale", scale), v.in("shift", shift);
    v.out("y", y, kOfRows);
    if (needs_input(act)) v.out("z", z, kOfRows);
    v.out("means", means, {.absolute = 1e-5, .relative = 1e-5});
    v.out("inverse_spreads", inverse_spreads, {.relative = 1e-4});
  }
};

/// The gradients of z = scale ⊙ n + shift. With g = scale ⊙ dz and the means over the columns of a
/// row, dz ← (g - mean(g) - n·mean(g ⊙ n))/√(var + 1e-5), the gradient of x. dscale and dshift are
/// the sums over rows of dz ⊙ n and of dz, zeros if b is 0. Their order depends only on shapes.
struct LayerNormBackward {
  Matrix x;                           ///< [b, n]
  View<const float> scale;            ///< [n]
  View<const float> means;            ///< [b] of LayerNormForward
  View<const float> inverse_spreads;  ///< [b] of LayerNormForward
  Matrix dz;                          ///< [b, n]
  View<float> dscale;                 ///< [n]
  View<float> dshift;                 ///< [n]

  static constexpr const char* kName = "layer_norm_backward";
  template <class V>
  void operands(V& v) {
    v.in("x", x), v.in("scale", scale);
    v.in("means", means), v.in("inverse_spreads", inverse_spreads);
    v.inout("dz", dz, {.absolute = 1e-4, .relative = 1e-4, .initial = 1e-4});
    v.out("dscale", dscale, {.absolute = 2e-4, .relative = 1e-4});
    v.out("dshift", dshift, sum_of(dz.rows));
  }
};

#define DLRM_LAYER_NORM_OPERATIONS(X) X(LayerNormForward) X(LayerNormBackward)

}  // namespace dlrm
