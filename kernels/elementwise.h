#pragma once
// Conversions and sums of matrices; see Ops.
#include <cuda_runtime.h>

#include "dlrm/core/view.h"

namespace dlrm::kernels {

/// Any of the three types on either side.
void convert(const Matrix& x, const Matrix& y, cudaStream_t stream);
/// y += x, fp32 or bf16 on either side.
void add(const Matrix& x, const Matrix& y, cudaStream_t stream);
/// *bad = 1 where an element of x is NaN or infinite.
void find_non_finite(const Matrix& x, float* bad, cudaStream_t stream);

}  // namespace dlrm::kernels
