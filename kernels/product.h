#pragma once
// A product of any shape, for shapes without a library algorithm.
#include <cuda_runtime.h>

#include "dlrm/core/view.h"

namespace dlrm::kernels {

/// d = op(a) op(b) + c; c may be d, or null for 0. op(x) = x or xᵀ. a and b have one type, fp32 or
/// bf16. c and d have one type, fp32 or bf16. Any alignment. k may be 0. d has less than 2^21
/// columns.
void product(const Matrix& a, bool transpose_a, const Matrix& b, bool transpose_b, const Matrix& c,
             const Matrix& d, cudaStream_t stream);

}  // namespace dlrm::kernels
