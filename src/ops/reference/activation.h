#pragma once
#include <algorithm>
#include <cmath>

#include "dlrm/ops/types.h"

namespace dlrm::reference {

inline constexpr double kGeluInner = 0.7978845608028654;  // √(2/π)
inline constexpr double kGeluCubic = 0.044715;

inline double sigmoid_of(double z) { return 1 / (1 + std::exp(-z)); }

/// tanh of what gelu has inside.
inline double gelu_tanh(double z) { return std::tanh(kGeluInner * (z + kGeluCubic * z * z * z)); }

/// act(z). NaN stays NaN.
inline double activated(Act act, double z) {
  switch (act) {
    case Act::kNone:
      return z;
    case Act::kRelu:
      return std::max(z, 0.0);
    case Act::kGelu:
      return z / 2 * (1 + gelu_tanh(z));
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
      const double t = gelu_tanh(value);
      const double inner = kGeluInner * (1 + 3 * kGeluCubic * value * value);
      return (1 + t) / 2 + value / 2 * (1 - t * t) * inner;
    }
    case Act::kSilu: {
      const double s = sigmoid_of(value);
      return s * (1 + value * (1 - s));
    }
    case Act::kSigmoid:
      return value * (1 - value);
    case Act::kTanh:
      return 1 - value * value;
  }
  return 1;
}

}  // namespace dlrm::reference
