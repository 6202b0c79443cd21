#pragma once
// A linear layer of one output, as most models end in: no matrix product is worth starting for it.
#include <cuda_runtime.h>

#include "dlrm/core/view.h"

namespace dlrm::kernels {

/// y [b, 1] = x wᵀ + bias. x [b, n], w [1, n] of one type, fp32 or bf16; bias fp32 [1] or null; y
/// of their type.
void one_output_forward(const Matrix& x, const Matrix& w, const float* bias, const Matrix& y,
                        cudaStream_t stream);

/// Results of the backward. A null pointer (or dx.data) leaves a result out.
struct OneOutputGradients {
  Matrix dx;                    ///< [b, n] = dz w
  bool relu = false;            ///< x is relu's result: dx is zero where x is
  float* dw = nullptr;          ///< [n] = Σ_r dz[r] x[r, .]
  float* dbias = nullptr;       ///< [1] = Σ_r dz[r]
  float* sums_of_dx = nullptr;  ///< [n] column sums of dx as it was rounded
};

/// Floats that one_output_backward needs in `partial`.
int64_t one_output_partial(const Matrix& x);
/// All of it in one pass over x and dx. dz [b, 1], x [b, n], w [1, n] of one type.
void one_output_backward(const Matrix& dz, const Matrix& x, const Matrix& w,
                         const OneOutputGradients& to, float* partial, cudaStream_t stream);

}  // namespace dlrm::kernels
