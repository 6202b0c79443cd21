#pragma once
// Tables before training. See Ops::fill_rows.
#include <cstdint>

#include <cuda_runtime.h>

#include "dlrm/core/random.h"
#include "dlrm/core/view.h"

namespace dlrm::kernels {

/// table [rows, cols] in fp32 or bf16.
void fill_rows(uint64_t key, int64_t first_row, int64_t first_column, const RowInit& init,
               const Matrix& table, cudaStream_t stream);

}  // namespace dlrm::kernels
