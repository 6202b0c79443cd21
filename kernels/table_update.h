#pragma once
// Updates whole data-parallel tables. See Ops::update_tables.
#include <cstdint>

#include <cuda_runtime.h>

#include "dlrm/ops/embedding.h"

#include "kernels/embedding_update.h"

namespace dlrm::kernels {

/// A table with the gradients [rows, width] of all of its rows. shard.touched flags the rows that
/// are updated. It has no undefined bytes.
struct DenseTable {
  UpdateShard shard;
  const float* grads;
  int64_t stride;
  int64_t rows;
  int64_t aligned;  ///< rows of grads are read 16 bytes at a time
};
DenseTable dense_table(const RowTable& table, const TableGradients& gradients);
uint32_t table_blocks(const DenseTable& table);
/// Updates the touched rows of all tables. `first_block`: of each table, and the number of blocks.
/// `penalised`: changes_gradients() of any table.
void update_tables(const OptimizerStep& step, const DenseTable* tables, const uint32_t* first_block,
                   int count, uint32_t blocks, bool penalised, cudaStream_t stream);

}  // namespace dlrm::kernels
