// n = (x - mean)/√(var + eps) of each row, z = scale ⊙ n + shift. Backward, with g = scale ⊙ dz:
// dz ← (g - mean(g) - n·mean(g ⊙ n))/√(var + eps), dscale = Σ dz ⊙ n, dshift = Σ dz over rows.
// A warp computes a row and reads it several times, which after the first time are hits of L1. The
// sums over rows are made by chunks (column_chunks.cuh), before dz is overwritten.
// Bytes per element of s bytes: 2·s forward, 5·s backward. Limit: memory bandwidth.
#include "kernels/column_chunks.cuh"
#include "kernels/layer_norm.h"
#include "kernels/warps.cuh"

namespace dlrm::kernels {
namespace {

constexpr int kWarps = 8;

/// The statistics of rows.
struct RowStatistics {
  const float* means;
  const float* inverse_spreads;
  __device__ float unit(float x, int64_t r) const { return (x - means[r]) * inverse_spreads[r]; }
};

__device__ int64_t row_of_warp() { return static_cast<int64_t>(blockIdx.x) * kWarps + warp_of(); }

template <class T>
__global__ void __launch_bounds__(kWarps * 32)
    forward_kernel(Rows<const T> x, Rows<T> z, const float* scale, const float* shift, float* means,
                   float* inverse_spreads, int64_t rows, int64_t cols) {
  const int64_t r = row_of_warp();
  if (r >= rows) return;  // the whole warp returns
  const T* from = x.row(r);
  const auto n = static_cast<float>(cols);
  float sum = 0, squares = 0;
  for (int64_t c = lane_of(); c < cols; c += 32) sum += to_float(from[c]);
  const float mean = warp_sum(sum) / n;
  for (int64_t c = lane_of(); c < cols; c += 32) {
    const float off = to_float(from[c]) - mean;
    squares += off * off;
  }
  const float eps = static_cast<float>(kLayerNormEps);
  const float inverse = 1.0f / __fsqrt_rn(warp_sum(squares) / n + eps);
  T* to = z.row(r);
  for (int64_t c = lane_of(); c < cols; c += 32) {
    to[c] = from_float<T>(scale[c] * ((to_float(from[c]) - mean) * inverse) + shift[c]);
  }
  if (lane_of() != 0) return;
  means[r] = mean;
  inverse_spreads[r] = inverse;
}

template <class T>
__global__ void __launch_bounds__(kWarps * 32)
    backward_kernel(Rows<const T> x, Rows<T> dz, const float* scale, RowStatistics of, int64_t rows,
                    int64_t cols) {
  const int64_t r = row_of_warp();
  if (r >= rows) return;  // the whole warp returns
  const T* from = x.row(r);
  T* d = dz.row(r);
  float g_sum = 0, product_sum = 0;
  for (int64_t c = lane_of(); c < cols; c += 32) {
    const float g = scale[c] * to_float(d[c]);
    g_sum += g;
    product_sum += g * of.unit(to_float(from[c]), r);
  }
  const auto n = static_cast<float>(cols);
  const float mean_g = warp_sum(g_sum) / n, mean_product = warp_sum(product_sum) / n;
  for (int64_t c = lane_of(); c < cols; c += 32) {
    const float left =
        scale[c] * to_float(d[c]) - mean_g - of.unit(to_float(from[c]), r) * mean_product;
    d[c] = from_float<T>(left * of.inverse_spreads[r]);
  }
}

/// partial [chunks, 2·cols]: the sums of dz ⊙ n, then those of dz.
template <class T>
__global__ void __launch_bounds__(kChunkThreads)
    chunk_sums_kernel(Rows<const T> x, Rows<const T> dz, RowStatistics of, ChunkShape shape,
                      float* partial) {
  DLRM_SHARED(float, shared, kChunkThreads);
  const ChunkThread thread(shape, 1);
  float of_scale[1] = {}, of_shift[1] = {};
#pragma unroll 4
  for (int64_t r = thread.first; r < thread.last; r += thread.rows_apart) {
    const float d = to_float(dz.row(r)[thread.column]);
    of_scale[0] += d * of.unit(to_float(x.row(r)[thread.column]), r);
    of_shift[0] += d;
  }
  float* to = partial + blockIdx.y * 2 * shape.cols;
  add_threads<1>(shape, thread, of_scale, shared, to);
  add_threads<1>(shape, thread, of_shift, shared, to + shape.cols);
}

Dims warp_a_row(int64_t rows) { return {blocks_for(rows, int64_t{kWarps}), kWarps * 32}; }

}  // namespace

void layer_norm_forward(const LayerNormForward& o, const Matrix& z, cudaStream_t stream) {
  with_type(z.type, [&]<class T>() {
    launch(forward_kernel<T>, warp_a_row(z.rows), stream, rows_of<const T>(o.x), rows_of<T>(z),
           o.scale.data(), o.shift.data(), o.means.data(), o.inverse_spreads.data(), z.rows,
           z.cols);
  });
}

int64_t layer_norm_partial(const Matrix& dz) {
  return blocks_for(dz.rows, chunk_rows(dz.rows)) * 2 * dz.cols;
}

void layer_norm_backward(const LayerNormBackward& o, float* partial, cudaStream_t stream) {
  const Matrix& dz = o.dz;
  const RowStatistics of{o.means.data(), o.inverse_spreads.data()};
  const ChunkShape shape{dz.rows, dz.cols, chunk_rows(dz.rows), 1, block_shape(dz.cols, 32).shift};
  with_type(dz.type, [&]<class T>() {
    launch(chunk_sums_kernel<T>, {shape.grid(), kChunkThreads}, stream, rows_of<const T>(o.x),
           rows_of<const T>(dz), of, shape, partial);
    launch(backward_kernel<T>, warp_a_row(dz.rows), stream, rows_of<const T>(o.x), rows_of<T>(dz),
           o.scale.data(), of, dz.rows, dz.cols);
  });
  add_chunks(partial, shape.chunks(),
             {{o.dscale.data(), o.dshift.data(), nullptr}, {dz.cols, dz.cols, 0}}, stream);
}

}  // namespace dlrm::kernels
