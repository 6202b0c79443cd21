// y[r] = Σ_c x[r, c] w[c] + bias.
// Backward: dx[r, c] = dz[r] w[c], dw[c] = Σ_r dz[r] x[r, c], dbias = Σ_r dz[r], and the column
// sums of dx, which are the bias gradient of the layer below. If x is a ReLU's result, dx[r, c] is
// 0 if x[r, c] is 0.
// All in fp32. The order of sums depends on shapes only.
// Bytes per element of x of s bytes: s forward, 2·s backward, each once.
// Limit: the bandwidth of a copy.
#include "kernels/column_chunks.cuh"
#include "kernels/one_output.h"
#include "kernels/warps.cuh"

namespace dlrm::kernels {
namespace {

constexpr int kWarps = 8;
constexpr int kRowsAtOnce = 4;  // per warp: enough loads in flight

template <class T, int N>
__global__ void __launch_bounds__(kWarps * 32)
    one_output_forward_kernel(Rows<const T> x, const T* w, const float* bias, Rows<T> y,
                              int64_t rows, int64_t cols) {
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kWarps + warp_of()) * kRowsAtOnce;
  if (first >= rows) return;  // the whole warp returns
  float sums[kRowsAtOnce] = {};
  for (int64_t c = lane_of() * N; c < cols; c += 32 * N) {
    const auto weights = load_pack<N>(w + c);
    Pack<T, N> packs[kRowsAtOnce];
#pragma unroll
    for (int k = 0; k < kRowsAtOnce; ++k) {
      packs[k] = load_pack<N>(x.row(first + k < rows ? first + k : first) + c);
    }
#pragma unroll
    for (int k = 0; k < kRowsAtOnce; ++k) {
#pragma unroll
      for (int i = 0; i < N; ++i) sums[k] += to_float(packs[k].at[i]) * to_float(weights.at[i]);
    }
  }
#pragma unroll
  for (int k = 0; k < kRowsAtOnce; ++k) {
    for (int half = 16; half > 0; half /= 2) {
      sums[k] += __shfl_xor_sync(kAllLanes, sums[k], half, 32);
    }
    if (lane_of() == 0 && first + k < rows) {
      y.row(first + k)[0] = from_float<T>(bias ? sums[k] + *bias : sums[k]);
    }
  }
}

/// kDx: dx is written.
template <class T, int N, bool kDx>
__global__ void __launch_bounds__(kChunkThreads)
    one_output_backward_kernel(Rows<const T> dz, Rows<const T> x, const T* w, Rows<T> dx, bool relu,
                               ChunkShape shape, float* partial) {
  DLRM_SHARED(float, shared, kChunkThreads* N);
  const ChunkThread thread(shape, N);
  float weights[N] = {}, dw[N] = {}, sums[N] = {}, dbias[1] = {};
  if (kDx && thread.column < shape.cols) {
    const auto pack = load_pack<N>(w + thread.column);
#pragma unroll
    for (int i = 0; i < N; ++i) weights[i] = to_float(pack.at[i]);
  }
#pragma unroll 2
  for (int64_t r = thread.first; r < thread.last; r += thread.rows_apart) {
    const float g = to_float(dz.row(r)[0]);
    const auto row = load_pack<N>(x.row(r) + thread.column);
    dbias[0] += g;
    Pack<T, N> out;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float value = to_float(row.at[i]);
      dw[i] += g * value;
      if (kDx) {
        out.at[i] = from_float<T>(relu && value == 0 ? 0.0f : g * weights[i]);
        sums[i] += to_float(out.at[i]);
      }
    }
    if (kDx) store_pack(dx.row(r) + thread.column, out);
  }
  const int64_t parts = kDx ? 2 : 1;
  float* to = partial + blockIdx.y * (parts * shape.cols + 1);
  add_threads<N>(shape, thread, dw, shared, to);
  if (kDx) add_threads<N>(shape, thread, sums, shared, to + shape.cols);
  // Every column of threads holds the sum of dz. The first one's is kept.
  if (blockIdx.x != 0) return;  // the whole block returns
  __syncthreads();
  if (thread.across == 0) shared[thread.down] = dbias[0];
  __syncthreads();
  if (threadIdx.x != 0) return;
  float sum = shared[0];
  for (int d = 1; d < thread.rows_apart; ++d) sum += shared[d];
  to[parts * shape.cols] = sum;
}

/// Calls body.operator()<T, N>().
template <class Body>
void with_packs(DType type, int length, const Body& body) {
  with_type(type, [&]<class T>() {
    length == 1 ? body.template operator()<T, 1>()
                : body.template operator()<T, 16 / static_cast<int>(sizeof(T))>();
  });
}

}  // namespace

void one_output_forward(const Matrix& x, const Matrix& w, const float* bias, const Matrix& y,
                        cudaStream_t stream) {
  with_packs(x.type, chunk_shape(x, {x, w}).length, [&]<class T, int N>() {
    launch(one_output_forward_kernel<T, N>,
           {blocks_for(x.rows, int64_t{kWarps * kRowsAtOnce}), kWarps * 32}, stream,
           rows_of<const T>(x), static_cast<const T*>(w.data), bias, rows_of<T>(y), x.rows, x.cols);
  });
}

int64_t one_output_partial(const Matrix& x) {
  return blocks_for(x.rows, chunk_rows(x.rows)) * (2 * x.cols + 1);
}

void one_output_backward(const Matrix& dz, const Matrix& x, const Matrix& w,
                         const OneOutputGradients& to, float* partial, cudaStream_t stream) {
  const bool with_dx = to.dx.data != nullptr;
  const ChunkShape shape = with_dx ? chunk_shape(x, {x, w, to.dx}) : chunk_shape(x, {x});
  with_packs(x.type, shape.length, [&]<class T, int N>() {
    const auto run = [&](auto kernel) {
      launch(kernel, {shape.grid(), kChunkThreads}, stream, rows_of<const T>(dz),
             rows_of<const T>(x), static_cast<const T*>(w.data), rows_of<T>(to.dx), to.relu, shape,
             partial);
    };
    with_dx ? run(one_output_backward_kernel<T, N, true>)
            : run(one_output_backward_kernel<T, N, false>);
  });
  const int64_t n = x.cols;
  ChunkTargets targets{{to.dw, to.sums_of_dx, to.dbias}, {n, with_dx ? n : 0, 1}};
  add_chunks(partial, shape.chunks(), targets, stream);
}

}  // namespace dlrm::kernels
