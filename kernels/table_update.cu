// One update of each row of a table whose flag is set, by the row of the same number of a matrix of
// gradients. All tables share one launch. A part of a warp takes a row.
// Bytes per row: 4 for its flag. Bytes per updated row of width w: 12·w for SGD, 20·w Adagrad, 12·w
// + 8 row-wise, 28·w Adam. Limit: memory bandwidth.
#include "kernels/launch.cuh"
#include "kernels/row_update.cuh"
#include "kernels/table_update.h"

namespace dlrm::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

template <Rule R, bool kPenalised>
__global__ void __launch_bounds__(kThreads)
    update_tables_kernel(OptimizerStep step, const DenseTable* tables, const uint32_t* first_block,
                         int count) {
  if (update_is_skipped(step)) return;
  const int at = find_interval(first_block, count, blockIdx.x);
  const DenseTable& table = tables[at];
  const Lanes lanes(table.shard.shift);
  const int64_t warp = int64_t{blockIdx.x - first_block[at]} * kWarps + warp_of();
  const int64_t row = warp * lanes.parts() + lanes.part;
  if (row >= table.rows || !(table.shard.touched[row] > 0)) return;
  const RowSource source{table.grads + row * table.stride, table.aligned != 0};
  UpdateRow<R, kPenalised>{constants_of(step)}(table.shard, row, row, source, lanes);
}

}  // namespace

DenseTable dense_table(const RowTable& table, const TableGradients& gradients) {
  DenseTable dense{};
  dense.shard = update_shard(table);
  dense.shard.touched = gradients.touched.data();
  dense.grads = gradients.rows.data;
  dense.stride = gradients.rows.stride;
  dense.rows = gradients.rows.rows;
  dense.aligned = rows_aligned(dense.grads, dense.stride, 4);
  return dense;
}
uint32_t table_blocks(const DenseTable& table) {
  return static_cast<uint32_t>(blocks_of_rows(table.rows, table.shard.shift, kWarps));
}

void update_tables(const OptimizerStep& step, const DenseTable* tables, const uint32_t* first_block,
                   int count, uint32_t blocks, bool penalised, cudaStream_t stream) {
  with_row_update(step.rule, penalised, [&]<Rule R, bool kPenalised>() {
    launch(update_tables_kernel<R, kPenalised>, {int64_t{blocks}, kThreads}, stream, step, tables,
           first_block, count);
  });
}

}  // namespace dlrm::kernels
