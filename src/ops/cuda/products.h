#pragma once
#include <array>
#include <functional>
#include <set>

#include <cuda_runtime.h>

#include "dlrm/device/cuda/matmul.h"
#include "dlrm/device/device.h"
#include "dlrm/ops/ops.h"

#include "cuda/scratch.h"

namespace dlrm {

/// Products of any shape on two streams, the operations' own and a side stream.
class Products {
 public:
  static constexpr int kMain = 0;
  static constexpr int kSide = 1;

  Products(Device& device, Stream& main, Stream& side, Scratch& scratch,
           const CudaOpsOptions& options);

  /// Returns `product` with inputs that the tensor cores can read, 16 bytes at a time. Inputs whose
  /// rows do not begin at multiples of 16 bytes are copied into rows that do, if the product is
  /// large enough to repay the copy.
  cuda::Product aligned(cuda::Product product, int lane);
  /// Computes a product without an epilogue. m, n, k > 0. If the library has no algorithm for it,
  /// our own slow kernel computes it, and the log says so once for each shape.
  void run(const cuda::Product& product, int lane);
  /// Computes a product with an epilogue. Returns false and does nothing if the library has no
  /// algorithm for it.
  bool run_fused(const cuda::Product& product, int lane);
  bool serves(const cuda::Product& product, int lane);
  /// Returns the number of the fastest way to compute `product`. See cuda::Matmul::fastest.
  int fastest(const cuda::Product& product, int ways, const std::function<void(int)>& run,
              int lane) {
    return matmul_->fastest(product, ways, run, *streams_[lane]);
  }

  cudaStream_t native(int lane) const;
  /// Memory of operations on this stream.
  Scratch& scratch(int lane) { return lane == kMain ? scratch_ : side_scratch_; }
  cuda::Matmul& library() { return *matmul_; }

 private:
  Matrix aligned_copy(const Matrix& m, int64_t other_size, const char* purpose, int lane);
  void say_slow(const cuda::Product& product);

  Stream* streams_[2];
  Scratch& scratch_;      // of the main stream
  Scratch side_scratch_;  // of the side stream
  bool tf32_;
  Log log_;
  std::set<std::array<int64_t, 3>> slow_;  // m, n, k of products that no library took
  std::unique_ptr<cuda::Matmul> matmul_;
};

}  // namespace dlrm
