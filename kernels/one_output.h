#pragma once
// A linear layer of one output, the last layer of most models. A matrix product would be slower.
#include <cuda_runtime.h>

#include "dlrm/core/view.h"

namespace dlrm::kernels {

/// y [b, 1] = x wᵀ + bias. x [b, n], w [1, n] and y have one type, fp32 or bf16. bias is fp32 [1]
/// or null.
void one_output_forward(const Matrix& x, const Matrix& w, const float* bias, const Matrix& y,
                        cudaStream_t stream);

/// Results of the backward. A result whose pointer (or dx.data) is null is not computed.
struct OneOutputGradients {
  Matrix dx;                    ///< [b, n] = dz w
  bool relu = false;            ///< x is a ReLU's result: dx is zero if x is
  float* dw = nullptr;          ///< [n] = Σ_r dz[r] x[r, .]
  float* dbias = nullptr;       ///< [1] = Σ_r dz[r]
  float* sums_of_dx = nullptr;  ///< [n] column sums of dx after rounding
};

/// The number of floats that `partial` must hold.
int64_t one_output_partial(const Matrix& x);
/// Computes all results in one pass over x and dx. dz [b, 1], x [b, n], w [1, n] of one type.
void one_output_backward(const Matrix& dz, const Matrix& x, const Matrix& w,
                         const OneOutputGradients& to, float* partial, cudaStream_t stream);

}  // namespace dlrm::kernels
