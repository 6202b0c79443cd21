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

/// Applied to a product p = op(a) op(b) [+ c], of shape [m, n], before it is rounded and stored in
/// d. The relu of a NaN is unspecified. cuBLASLt and the emulator return 0.
enum class Epilogue : uint8_t {
  kNone,         ///< d = p
  kBias,         ///< d = p + bias
  kReluBias,     ///< d = max(p + bias, 0)
  kReluAuxBias,  ///< the same; bit (i, j) of aux = p + bias > 0
  kGeluAuxBias,  ///< aux = p + bias, d = gelu(aux), tanh form
  kDrelu,        ///< d = p if the bit in aux is set, otherwise 0
  kDreluBgrad,   ///< the same; bias = column sums of d
  kSumsOfA,      ///< d = p; bias [m] = Σ_k op(a)[., k]
  kSumsOfB,      ///< d = p; bias [n] = Σ_k op(b)[k, .]
};

/// One product of row-major matrices: op(a) [m, k], op(b) [k, n], d [m, n]. op(x) is xᵀ if
/// `transpose` is set, otherwise x. a and b are both fp32 or both bf16. d is fp32 or of their type.
/// Sums are kept in fp32.
struct Product {
  Matrix a, b, d;
  bool transpose_a = false, transpose_b = false;
  Matrix c = {};  ///< [m, n] of d's type, added to the product; may be d. Null: nothing is added.
  Epilogue epilogue = Epilogue::kNone;
  /// [n] elements, or [m] for kSumsOfA, of d's type. cuBLASLt requires the bias to have the type of
  /// the result. kDreluBgrad, kSumsOfA and kSumsOfB write it. Other epilogues read it.
  void* bias = nullptr;
  /// Relu: bit j of row i is bit j % 8 of byte i · aux_stride / 8 + j / 8. aux_stride is in bits
  /// and a multiple of 128. Gelu: [m, n] elements of d's type. aux_stride is in elements and a
  /// multiple of 8.
  void* aux = nullptr;
  int64_t aux_stride = 0;
};

struct MatmulOptions {
  bool tf32 = true;  ///< fp32 values are rounded to TF32 before they are multiplied
  /// Number of the library's proposals that are timed for a new shape, until settle(). 0 takes the
  /// first that runs.
  int timed_candidates = 0;
  size_t workspace_bytes = size_t{32} << 20;  ///< for each stream that products run on
};

/// Matrix products by cuBLASLt, or by host loops in the emulator. The first call for a shape makes
/// its descriptors and chooses its algorithm. Both are kept. That call may allocate and wait, so it
/// must happen before a stream is captured. Afterwards `run` only queues work. Not thread-safe.
class Matmul {
 public:
  virtual ~Matmul() = default;
  /// Whether the library has an algorithm for this product. The first call for a shape chooses the
  /// algorithm. It may overwrite bias and aux, and also d unless c is d.
  virtual bool serves(const Product& product, Stream& stream) = 0;
  /// Queues the product, which `serves` must have accepted. m, n, k > 0.
  virtual void run(const Product& product, Stream& stream) = 0;
  /// The fastest of `ways` ways to compute `product`. The first call for a product runs each way
  /// several times. run(way) queues a way on the stream. If nothing is timed, returns the restored
  /// choice, or 0 without one.
  virtual int fastest(const Product& product, int ways, const std::function<void(int way)>& run,
                      Stream& stream) = 0;
  /// From now on nothing is timed. Later shapes take the first algorithm, so that the results of a
  /// run do not depend on when it was interrupted.
  virtual void settle() = 0;
  /// The algorithms chosen so far, as opaque bytes. Empty before settle().
  virtual std::vector<std::byte> tuned_algorithms() const = 0;
  /// Uses these algorithms again and calls settle(), so that a resumed run sums in the same order.
  /// Does nothing if another library or GPU chose them.
  virtual void restore(std::span<const std::byte> choices) = 0;
};

std::unique_ptr<Matmul> make_matmul(Device& device, const MatmulOptions& options);

}  // namespace dlrm::cuda
