#pragma once
#include <cstdint>
#include <memory>

#include "dlrm/core/view.h"
#include "dlrm/device/device.h"

namespace dlrm::cuda {

/// The activations that cuDNN has as functions of their own and that keep a NaN: σ, tanh, and silu
/// z·σ(z) (its "swish"). ReLU and GELU are elsewhere: cuDNN's ReLU runs apart from the product,
/// where cuBLASLt's epilogue or our kernel does the same in one pass, and GELU it has only in
/// graphs built and compiled at run time.
enum class Activation : uint8_t { kSigmoid, kTanh, kSilu };

/// Activations by cuDNN (host loops in the emulator). The first call may allocate; later ones only
/// queue work. Not thread-safe.
class Activations {
 public:
  virtual ~Activations() = default;
  /// y = act(z), computed in fp32. z, y [b, n] of one type, fp32 or bf16; y may be z. False, and
  /// nothing done, where the library does not take this type or shape.
  virtual bool forward(Activation act, Matrix z, Matrix y, Stream& stream) = 0;
  /// dy ← dy ⊙ act'(z), from y = act(z). False as above, and for silu, whose slope is not to be had
  /// from y (of cuDNN it is not known what it reads there).
  virtual bool backward(Activation act, Matrix y, Matrix dy, Stream& stream) = 0;
};

std::unique_ptr<Activations> make_activations(Device& device);

}  // namespace dlrm::cuda
