#pragma once
#include <algorithm>
#include <cmath>

#include "dlrm/ops/types.h"

namespace dlrm::reference {

inline constexpr double kGeluInner = 0.7978845608028654;  // √(2/π)
inline constexpr double kGeluCubic = 0.044715;

inline double sigmoid_of(double z) { return 1 / (1 + std::exp(-z)); }

/// (1 + tanh(u)) / 2 = σ(2u) for gelu's inner u, without cancellation.
inline double gelu_share(double z) {
  return sigmoid_of(2 * kGeluInner * (z + kGeluCubic * z * z * z));
}

/// act(z). NaN stays NaN.
inline double activated(Activation act, double z) {
  switch (act) {
    case Activation::kNone:
      return z;
    case Activation::kRelu:
      return std::max(z, 0.0);
    case Activation::kGelu:
      return z * gelu_share(z);
    case Activation::kSilu:
      return z * sigmoid_of(z);
    case Activation::kSigmoid:
      return sigmoid_of(z);
    case Activation::kTanh:
      return std::tanh(z);
  }
  return z;
}

/// act'(z), from `value`: z if needs_input(act), otherwise act(z).
inline double activation_slope(Activation act, double value) {
  switch (act) {
    case Activation::kNone:
      return 1;
    case Activation::kRelu:
      return value == 0 ? 0 : 1;
    case Activation::kGelu: {
      const double s = gelu_share(value);
      const double inner = 2 * kGeluInner * (1 + 3 * kGeluCubic * value * value);
      return s + value * s * gelu_share(-value) * inner;
    }
    case Activation::kSilu: {
      const double s = sigmoid_of(value);
      return s * (1 + value * sigmoid_of(-value));
    }
    case Activation::kSigmoid:
      return value * (1 - value);
    case Activation::kTanh:
      return 1 - value * value;
  }
  return 1;
}

}  // namespace dlrm::reference
