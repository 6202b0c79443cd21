#pragma once
#include <algorithm>
#include <cmath>

#include "dlrm/ops/types.h"

namespace dlrm::reference {

inline constexpr double kGeluInner = 0.7978845608028654;  // √(2/π)
inline constexpr double kGeluCubic = 0.044715;

inline double sigmoid_of(double z) { return 1 / (1 + std::exp(-z)); }

/// (1 + tanh of what gelu has inside) / 2 = σ of twice that, which does not cancel.
inline double gelu_share(double z) {
  return sigmoid_of(2 * kGeluInner * (z + kGeluCubic * z * z * z));
}

/// act(z). NaN stays NaN.
inline double activated(Act act, double z) {
  switch (act) {
    case Act::kNone:
      return z;
    case Act::kRelu:
      return std::max(z, 0.0);
    case Act::kGelu:
      return z * gelu_share(z);
    case Act::kSilu:
      return z * sigmoid_of(z);
    case Act::kSigmoid:
      return sigmoid_of(z);
    case Act::kTanh:
      return std::tanh(z);
  }
  return z;
}

/// act'(z), from `value`: z where needs_input(act), else act(z).
inline double activation_slope(Act act, double value) {
  switch (act) {
    case Act::kNone:
      return 1;
    case Act::kRelu:
      return value == 0 ? 0 : 1;
    case Act::kGelu: {
      const double s = gelu_share(value);
      const double inner = 2 * kGeluInner * (1 + 3 * kGeluCubic * value * value);
      return s + value * s * gelu_share(-value) * inner;
    }
    case Act::kSilu: {
      const double s = sigmoid_of(value);
      return s * (1 + value * sigmoid_of(-value));
    }
    case Act::kSigmoid:
      return value * (1 - value);
    case Act::kTanh:
      return 1 - value * value;
  }
  return 1;
}

}  // namespace dlrm::reference
