#pragma once
// Sums of a matrix's columns: the gradient of a bias.
#include <cuda_runtime.h>

#include "dlrm/core/view.h"

namespace dlrm::kernels {

/// The number of floats that `partial` must hold.
int64_t column_sums_partial(const Matrix& m);
/// sums[c] = Σ_r m[r, c]; m fp32 or bf16, any number of rows.
void column_sums(const Matrix& m, float* sums, float* partial, cudaStream_t stream);

}  // namespace dlrm::kernels
