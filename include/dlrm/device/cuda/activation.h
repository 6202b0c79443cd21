#pragma once
#include <cstdint>
#include <memory>

#include "dlrm/core/activation.h"
#include "dlrm/core/view.h"
#include "dlrm/device/device.h"

namespace dlrm::cuda {

/// Whether cuDNN computes `act` and keeps a NaN: σ, tanh and silu (its "swish"). ReLU is not taken
/// from cuDNN, because the epilogue of the product or our kernel applies it in one pass. GELU is
/// not, because cuDNN has it only in graphs that are compiled at run time.
constexpr bool in_library(Activation act) {
  return act == Activation::kSigmoid || act == Activation::kTanh || act == Activation::kSilu;
}

/// Activations by cuDNN, or by host loops in the emulator. The first call may allocate. Later calls
/// only queue work. Not thread-safe.
class Activations {
 public:
  virtual ~Activations() = default;
  /// y = act(z), computed in fp32. z and y [b, n] are both fp32 or both bf16. y may be z. Returns
  /// false and does nothing if the library does not support this activation, type or shape.
  virtual bool forward(Activation act, Matrix z, Matrix y, Stream& stream) = 0;
  /// dy ← dy ⊙ act'(z), from y = act(z). Returns false as forward() does, and also for silu.
  /// The derivative of silu cannot be computed from y.
  virtual bool backward(Activation act, Matrix y, Matrix dy, Stream& stream) = 0;
};

std::unique_ptr<Activations> make_activations(Device& device);

}  // namespace dlrm::cuda
