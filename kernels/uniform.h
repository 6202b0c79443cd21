#pragma once
// Uniform initial tables. See Ops::fill_uniform.
#include <cstdint>

#include <cuda_runtime.h>

#include "dlrm/core/view.h"

namespace dlrm::kernels {

/// table [rows, cols] in fp32 or bf16.
void fill_uniform(uint64_t key, int64_t first_row, int64_t first_column, float bound,
                  const Matrix& table, cudaStream_t stream);

}  // namespace dlrm::kernels
