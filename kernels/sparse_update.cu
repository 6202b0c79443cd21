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

template <Rule R>
__global__ void __launch_bounds__(kThreads)
    update_rows_kernel(OptimizerStep step, UpdateShard s, RowGradientList grads) {
  const Lanes lanes(s.shift);
  const int64_t warp = int64_t{blockIdx.x} * kWarps + warp_of();
  const int64_t i = warp * lanes.parts() + lanes.part;
  if (update_is_skipped(step) || i >= *s.count) return;
  const UpdateRow<R> sink{constants_of(step)};
  const int64_t row = s.rows[i];
  const RowSource source{grads.grads + i * grads.stride, grads.aligned};
  if (grads.square_sums != nullptr) {
    sink.with_mean(s, row, source, __fdiv_rn(grads.square_sums[i], grads.full_width), lanes);
  } else {
    sink(s, i, row, source, lanes);
  }
}

__global__ void __launch_bounds__(kThreads)
    row_square_sums_kernel(const int64_t* count, const float* grads, int64_t stride, int width,
                           int shift, bool aligned, float* sums) {
  const Lanes lanes(shift);
  const int64_t warp = int64_t{blockIdx.x} * kWarps + warp_of();
  const int64_t i = warp * lanes.parts() + lanes.part;
  if (i >= *count) return;
  const float sum = square_sum(RowSource{grads + i * stride, aligned}, width, lanes);
  if (lanes.index == 0) sums[i] = sum;
}

int64_t row_blocks(int64_t rows, int shift) { return blocks_of_rows(rows, shift, kWarps); }

}  // namespace

void update_rows(const OptimizerStep& step, const UpdateShard& shard, const RowGradientList& grads,
                 int64_t capacity, cudaStream_t stream) {
  RowGradientList list = grads;
  list.aligned = rows_aligned(grads.grads, grads.stride, 4);
  with_rule<kSparse>(step.rule, [&]<Rule R>() {
    launch(update_rows_kernel<R>, {row_blocks(capacity, shard.shift), kThreads}, stream, step,
           shard, list);
  });
}

void row_square_sums(const int64_t* count, const MatrixView<const float>& grads, float* sums,
                     int64_t capacity, cudaStream_t stream) {
  const int shift = lanes_shift(grads.cols, 4);
  launch(row_square_sums_kernel, {row_blocks(capacity, shift), kThreads}, stream, count, grads.data,
         grads.stride, static_cast<int>(grads.cols), shift,
         rows_aligned(grads.data, grads.stride, 4), sums);
}

}  // namespace dlrm::kernels
