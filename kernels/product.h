#pragma once
// A product of any shape, for those that no library has an algorithm for.
#include <cuda_runtime.h>

#include "dlrm/core/view.h"

namespace dlrm::kernels {

/// d = op(a) op(b), op(x) = x or, where said, xᵀ. a, b of one type, fp32 or bf16, d of either; no
/// alignment asked for. d is written or, with `accumulate`, added to; k may be 0.
void product(const Matrix& a, bool transpose_a, const Matrix& b, bool transpose_b, bool accumulate,
             const Matrix& d, cudaStream_t stream);

}  // namespace dlrm::kernels
