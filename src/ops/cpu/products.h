#pragma once
#include <cstdint>
#include <memory>

#include "dlrm/core/view.h"
#include "dlrm/device/device.h"
#include "dlrm/ops/types.h"

#include "cpu/kernels.h"

namespace dlrm::cpu {

/// Matrix products by oneDNN, except gradients of fp32 where Kernels has them.
///
/// oneDNN's primitives are made once for each shape and kept. Measured on plain row-major operands,
/// `matmul` is as fast as inner_product with packed weights and faster than inner_product with
/// plain ones, at batches from 8 to 2048. oneDNN multiplies bf16 operands if the processor does
/// (AVX512-BF16, AMX) and `allow_bf16` is set. Otherwise they are widened and multiplied in fp32,
/// and the result is rounded.
class Products {
 public:
  Products(Device& device, const Kernels& kernels, int threads, bool allow_bf16);
  ~Products();

  /// y = x wᵀ + bias + added; without what is null. (oneDNN's ReLU would turn a NaN into 0.)
  /// x [m, k], w [n, k], y and added [m, n] of one type. The sum is rounded once.
  void forward(const Matrix& x, const Matrix& w, const float* bias, const Matrix& added,
               const Matrix& y);
  /// dx = dz w + added.
  void backward_input(const Matrix& dz, const Matrix& w, const Matrix& added, const Matrix& dx);
  /// dw = dzᵀ x.
  void backward_weight(const Matrix& dz, const Matrix& x, const MatrixView<float>& dw);
  /// True if bf16 is multiplied as bf16.
  bool native_bf16() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrm::cpu
