// Scatter: dense = 0, then dense[rows[i]] = grads[i], touched[rows[i]] = 1.
// Gather: the touched rows in order. One pass counts them per tile. Prefix sums of the counts
// follow. Another pass writes the rows.
// Bytes per element of dense: 4 written, 8 more if its row is in the list. Bytes per row: 4 for
// each pass over the flags, 8 if touched. Limit: memory bandwidth.
#include "kernels/launch.cuh"
#include "kernels/row_sets.h"
#include "kernels/rows.cuh"
#include "kernels/warps.cuh"

namespace dlrm::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kRounds = 4;
constexpr int kTile = kThreads * kRounds;

struct Zero {
  MatrixView<float> dense;
  __device__ void operator()(int64_t r, int64_t c) const { dense.data[r * dense.stride + c] = 0; }
};

struct CopyListed {
  const int64_t* rows;
  const int64_t* count;
  const float* grads;
  int64_t grads_stride;
  float* dense;
  int64_t dense_stride;
  float* touched;
  __device__ void operator()(int64_t i, int64_t c) const {
    if (i >= *count) return;
    const int64_t row = rows[i];
    dense[row * dense_stride + c] = grads[i * grads_stride + c];
    if (c == 0) touched[row] = 1;
  }
};

__global__ void count_touched_kernel(const float* touched, int64_t rows, uint32_t* in_tiles) {
  DLRM_SHARED(int, warp_counts, kWarps);
  int count = 0;
  for (int round = 0; round < kRounds; ++round) {
    const int64_t i = int64_t{blockIdx.x} * kTile + round * kThreads + threadIdx.x;
    count += __popc(__ballot_sync(kAllLanes, i < rows && touched[i] > 0));
  }
  if (lane_of() == 0) warp_counts[warp_of()] = count;
  __syncthreads();
  if (threadIdx.x != 0) return;
  int sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += warp_counts[w];
  in_tiles[blockIdx.x] = static_cast<uint32_t>(sum);
}

__global__ void write_touched_kernel(const float* touched, int64_t all,
                                     const uint32_t* before_tiles, int64_t* rows, int64_t* count) {
  DLRM_SHARED(int, warp_counts, kWarps);
  const int64_t first = int64_t{blockIdx.x} * kTile + warp_of() * (kTile / kWarps) + lane_of();
  unsigned found[kRounds];
  int sum = 0;
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    const int64_t i = first + round * 32;
    found[round] = __ballot_sync(kAllLanes, i < all && touched[i] > 0);
    sum += __popc(found[round]);
  }
  if (lane_of() == 0) warp_counts[warp_of()] = sum;
  __syncthreads();
  int64_t at = before_tiles[blockIdx.x];
  for (int w = 0; w < warp_of(); ++w) at += warp_counts[w];
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    if ((found[round] >> lane_of() & 1u) != 0) {
      rows[at + __popc(found[round] & ((1u << lane_of()) - 1u))] = first + round * 32;
    }
    at += __popc(found[round]);
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) count[0] = before_tiles[gridDim.x];
}

}  // namespace

void scatter_rows(View<const int64_t> rows, const int64_t* count,
                  const MatrixView<const float>& grads, const MatrixView<float>& dense,
                  View<float> touched, cudaStream_t stream) {
  const MatrixView<float> flags(touched.data(), 1, static_cast<int64_t>(touched.size()));
  over_elements({dense.rows, dense.cols, 1}, Zero{dense}, stream);
  over_elements({1, flags.cols, 1}, Zero{flags}, stream);
  const CopyListed copy{rows.data(), count,        grads.data,    grads.stride,
                        dense.data,  dense.stride, touched.data()};
  over_elements({static_cast<int64_t>(rows.size()), dense.cols, 1}, copy, stream);
}

int64_t touched_tiles(int64_t rows) { return rows == 0 ? 1 : blocks_for(rows, int64_t{kTile}); }

void count_touched(View<const float> touched, uint32_t* in_tiles, cudaStream_t stream) {
  const auto rows = static_cast<int64_t>(touched.size());
  launch(count_touched_kernel, {touched_tiles(rows), kThreads}, stream, touched.data(), rows,
         in_tiles);
}

void write_touched(View<const float> touched, const uint32_t* before_tiles, int64_t* rows,
                   int64_t* count, cudaStream_t stream) {
  const auto all = static_cast<int64_t>(touched.size());
  launch(write_touched_kernel, {touched_tiles(all), kThreads}, stream, touched.data(), all,
         before_tiles, rows, count);
}

}  // namespace dlrm::kernels
