#pragma once
#include <cstdint>

namespace dlrm {

/// Activation of a linear layer: none z; relu max(z, 0);
/// gelu z/2·(1 + tanh(√(2/π)·(z + 0.044715 z³))); silu z·σ(z); sigmoid σ(z) = 1/(1 + e^-z); tanh.
enum class Activation : uint8_t { kNone, kRelu, kGelu, kSilu, kSigmoid, kTanh };

/// True if act'(z) cannot be computed from act(z). The forward pass must then keep z.
constexpr bool needs_input(Activation act) {
  return act == Activation::kGelu || act == Activation::kSilu;
}

}  // namespace dlrm
