#pragma once
// Conversions and sums of matrices. See Ops.
#include <cuda_runtime.h>

#include "dlrm/core/view.h"

namespace dlrm::kernels {

/// Converts between any two of the three types.
void convert(const Matrix& x, const Matrix& y, cudaStream_t stream);
/// y += x. Each is fp32 or bf16.
void add(const Matrix& x, const Matrix& y, cudaStream_t stream);
/// y [b, 1] += the sums of the rows of x [b, n]. Each is fp32 or bf16.
void add_row_sums(const Matrix& x, const Matrix& y, cudaStream_t stream);
/// Every column of y [b, n] = x [b, 1]. Each is fp32 or bf16.
void repeat_column(const Matrix& x, const Matrix& y, cudaStream_t stream);
/// *bad = 1 if an element of x is NaN or infinite.
void find_non_finite(const Matrix& x, float* bad, cudaStream_t stream);

}  // namespace dlrm::kernels
