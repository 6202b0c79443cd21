// Updates rows by gradients that are in memory, and sums the squares of such gradients. A part of a
// warp takes a row.
// Bytes per updated row of width w: 12·w + 8 for SGD, 20·w + 8 Adagrad, 12·w + 16 row-wise, 28·w +
// 8 Adam. Bytes per sum of squares: 4·w + 4. Limit: memory bandwidth.
#include "kernels/launch.cuh"
#include "kernels/row_update.cuh"
#include "kernels/sparse_update.h"

namespace dlrm::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

template <Rule R, bool kPenalised>
__global__ void __launch_bounds__(kThreads)
    update_rows_kernel(OptimizerStep step, UpdateShard s, RowGradientList grads) {
  const Lanes lanes(s.shift);
  const int64_t warp = int64_t{blockIdx.x} * kWarps + warp_of();
  const int64_t i = warp * lanes.parts() + lanes.part;
  if (update_is_skipped(step) || i >= *s.count) return;
  const UpdateRow<R, kPenalised> sink{constants_of(step)};
  const int64_t row = s.rows[i];
  const RowSource source{grads.grads + i * grads.stride, grads.aligned};
  if (grads.square_sums != nullptr) {
    sink.with_sum(s, row, source, grads.square_sums[i], grads.full_width, lanes);
  } else {
    sink(s, i, row, source, lanes);
  }
}

__global__ void __launch_bounds__(kThreads)
    row_square_sums_kernel(UpdateShard s, const float* grads, int64_t stride, bool aligned,
                           float* sums) {
  const Lanes lanes(s.shift);
  const int64_t warp = int64_t{blockIdx.x} * kWarps + warp_of();
  const int64_t i = warp * lanes.parts() + lanes.part;
  if (i >= *s.count) return;
  const RowSource source{grads + i * stride, aligned};
  float sum = 0;
  if (s.l2 != 0) {
    const ShardRows rows(s);
    sum = square_sum(penalised_of(rows, s.rows[i], source), s.width, lanes);
  } else {
    sum = square_sum(source, s.width, lanes);
  }
  if (lanes.index == 0) sums[i] = sum;
}

int64_t row_blocks(int64_t rows, int shift) { return blocks_of_rows(rows, shift, kWarps); }

}  // namespace

void update_rows(const OptimizerStep& step, const UpdateShard& shard, const RowGradientList& grads,
                 int64_t capacity, cudaStream_t stream) {
  RowGradientList list = grads;
  list.aligned = rows_aligned(grads.grads, grads.stride, 4);
  with_row_update(step.rule, changes_gradients(shard), [&]<Rule R, bool kPenalised>() {
    launch(update_rows_kernel<R, kPenalised>, {row_blocks(capacity, shard.shift), kThreads}, stream,
           step, shard, list);
  });
}

void row_square_sums(const UpdateShard& shard, const MatrixView<const float>& grads, float* sums,
                     int64_t capacity, cudaStream_t stream) {
  launch(row_square_sums_kernel, {row_blocks(capacity, shard.shift), kThreads}, stream, shard,
         grads.data, grads.stride, rows_aligned(grads.data, grads.stride, 4), sums);
}

}  // namespace dlrm::kernels
