#pragma once
// Converts sets of rows between lists and flags. See Ops::scatter_rows and Ops::touched_rows.
#include <cstdint>

#include <cuda_runtime.h>

#include "dlrm/core/view.h"

namespace dlrm::kernels {

void scatter_rows(View<const int64_t> rows, const int64_t* count,
                  const MatrixView<const float>& grads, const MatrixView<float>& dense,
                  View<float> touched, cudaStream_t stream);

int64_t touched_tiles(int64_t rows);
/// in_tiles[t] = number of touched rows in tile t.
void count_touched(View<const float> touched, uint32_t* in_tiles, cudaStream_t stream);
/// Writes the touched rows. Needs the exclusive sums of in_tiles.
void write_touched(View<const float> touched, const uint32_t* before_tiles, int64_t* rows,
                   int64_t* count, cudaStream_t stream);

}  // namespace dlrm::kernels
