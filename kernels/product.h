#pragma once
// A product of any shape, for those that no library has an algorithm for.
#include <cuda_runtime.h>

#include "dlrm/core/view.h"

namespace dlrm::kernels {

/// d = op(a) op(b), or d += with `accumulate`; op(x) = x or xᵀ. a and b have one type, fp32 or
/// bf16; d has either. Any alignment. k may be 0.
void product(const Matrix& a, bool transpose_a, const Matrix& b, bool transpose_b, bool accumulate,
             const Matrix& d, cudaStream_t stream);

}  // namespace dlrm::kernels
