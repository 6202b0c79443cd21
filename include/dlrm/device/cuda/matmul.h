#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dlrm/core/view.h"
#include "dlrm/device/device.h"

namespace dlrm::cuda {

/// What is done to a product p = op(a) op(b) [+ d] [m, n] before it is rounded and stored in d.
/// What the library's relu makes of a NaN is not said (cuBLASLt and the emulator: 0).
enum class Epilogue : uint8_t {
  kNone,         ///< d = p
  kBias,         ///< d = p + bias
  kReluBias,     ///< d = max(p + bias, 0)
  kReluAuxBias,  ///< the same; bit (i, j) of aux = p + bias > 0
  kGeluAuxBias,  ///< aux = p + bias, d = gelu(aux), tanh form
  kDrelu,        ///< d = p where the bit in aux is set, else 0
  kDreluBgrad,   ///< the same; bias = column sums of d
  kSumsOfA,      ///< d = p; bias [m] = Σ_k op(a)[., k]
  kSumsOfB,      ///< d = p; bias [n] = Σ_k op(b)[k, .]
};

/// One product of row-major matrices: op(a) [m, k], op(b) [k, n], d [m, n], where op(x) is x or,
/// with `transpose`, xᵀ. a and b are of one type, fp32 or bf16; d is fp32 or of their type. Sums
/// are kept in fp32.
struct Product {
  Matrix a, b, d;
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;  ///< adds what d holds
  Epilogue epilogue = Epilogue::kNone;
  /// [n] ([m] for kSumsOfA) elements of d's type: cuBLASLt has no bias of another type than its
  /// result's. Read, or written by kDreluBgrad, kSumsOfA and kSumsOfB.
  void* bias = nullptr;
  /// Relu: bit j of row i is bit j % 8 of byte i · aux_stride / 8 + j / 8; aux_stride in bits, a
  /// multiple of 128. Gelu: [m, n] elements of d's type, aux_stride in elements, a multiple of 8.
  void* aux = nullptr;
  int64_t aux_stride = 0;
};

struct MatmulOptions {
  bool tf32 = true;  ///< products of fp32 values round them to TF32 first
  /// How many of the library's proposals are timed when a shape is first met, until settle(); 0
  /// takes the first that runs.
  int timed_candidates = 0;
  size_t workspace_bytes = size_t{32} << 20;  ///< of each stream that products run on
};

/// Matrix products by cuBLASLt (host loops in the emulator). What a shape needs (descriptors, the
/// algorithm) is chosen when it is first met and kept; that may allocate and wait, so it must
/// happen before a stream is captured. Afterwards `run` only queues work. Not thread-safe.
class Matmul {
 public:
  virtual ~Matmul() = default;
  /// Whether the library has an algorithm for this product. Chooses it on the first call for the
  /// shape, which may overwrite d (where the product does not add to it), bias and aux.
  virtual bool serves(const Product& product, Stream& stream) = 0;
  /// Queues the product, which `serves` must have accepted. m, n, k > 0.
  virtual void run(const Product& product, Stream& stream) = 0;
  /// Which of `ways` to come to what `product` describes is the fastest, by running each several
  /// times when it is first asked: run(way) queues one on the stream. 0 where nothing is timed.
  virtual int fastest(const Product& product, int ways, const std::function<void(int way)>& run,
                      Stream& stream) = 0;
  /// From now on nothing is timed: shapes met later take the first, so that what a run computes
  /// does not hang on when it was interrupted.
  virtual void settle() = 0;
  /// What was chosen so far, as opaque bytes; none before settle(). `restore` takes them up again
  /// where library and GPU are the same (else it does nothing), so that a resumed run sums in the
  /// same order, and settles.
  virtual std::vector<std::byte> tuned_algorithms() const = 0;
  virtual void restore(std::span<const std::byte> choices) = 0;
};

std::unique_ptr<Matmul> make_matmul(Device& device, const MatmulOptions& options);

}  // namespace dlrm::cuda
