#pragma once
// Updates of rows whose gradients are in memory, one after another. See Ops::sparse_update and
// Ops::row_square_sums.
#include <cstdint>

#include <cuda_runtime.h>

#include "dlrm/core/view.h"
#include "dlrm/ops/types.h"

#include "kernels/embedding_update.h"

namespace dlrm::kernels {

/// The gradients of a list of rows.
struct RowGradientList {
  const float* grads;        ///< [capacity, width]
  int64_t stride;            ///< elements from row to row
  const float* square_sums;  ///< [capacity] of whole rows, or null: Ops::row_square_sums
  float full_width;          ///< columns of whole rows
  bool aligned;              ///< update_rows() sets it: four columns are read at a time
};
/// Updates each row rows[i] of `shard` once, by gradient i, for i < *shard.count <= capacity.
void update_rows(const OptimizerStep& step, const UpdateShard& shard, const RowGradientList& grads,
                 int64_t capacity, cudaStream_t stream);
/// sums[i] = Σ of the squares of gradient i and its penalty, for i < *shard.count <= capacity.
void row_square_sums(const UpdateShard& shard, const MatrixView<const float>& grads, float* sums,
                     int64_t capacity, cudaStream_t stream);

}  // namespace dlrm::kernels
