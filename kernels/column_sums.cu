// sums[c] = Σ_r m[r, c] in fp32, by chunks of rows and then over the chunks (column_chunks.cuh).
// Bytes per element: s, each read once. A thread reads 16 bytes at a time and several rows at once.
// The second pass reads at most 256 floats per column. Limit: memory bandwidth.
#include "kernels/column_chunks.cuh"
#include "kernels/column_sums.h"

namespace dlrm::kernels {
namespace {

template <class T, int N>
__global__ void __launch_bounds__(kChunkThreads)
    chunk_sums_kernel(Rows<const T> m, ChunkShape shape, float* partial) {
  DLRM_SHARED(float, shared, kChunkThreads* N);
  const ChunkThread thread(shape, N);
  float sums[N] = {};
#pragma unroll 4
  for (int64_t r = thread.first; r < thread.last; r += thread.rows_apart) {
    const auto row = load_pack<N>(m.row(r) + thread.column);
#pragma unroll
    for (int i = 0; i < N; ++i) sums[i] += to_float(row.at[i]);
  }
  add_threads<N>(shape, thread, sums, shared, partial + blockIdx.y * shape.cols);
}

constexpr int kColumns = 32;  // of a block that adds chunks
constexpr int kDown = 8;      // threads per column

__global__ void add_chunks_kernel(const float* partial, int64_t chunks, ChunkTargets targets,
                                  int64_t width) {
  DLRM_SHARED(float, shared, kColumns* kDown);
  const unsigned across = threadIdx.x % kColumns, down = threadIdx.x / kColumns;
  int64_t column = blockIdx.x * int64_t{kColumns} + across;
  float sum = 0;
  if (column < width) {
#pragma unroll 4
    for (int64_t i = down; i < chunks; i += kDown) sum += partial[i * width + column];
  }
  shared[threadIdx.x] = sum;
  __syncthreads();
  if (down != 0 || column >= width) return;
  for (int d = 1; d < kDown; ++d) sum += shared[d * kColumns + across];
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    if (column >= 0 && column < targets.counts[i] && targets.places[i]) {
      targets.places[i][column] = sum;
    }
    column -= targets.counts[i];
  }
}

}  // namespace

void add_chunks(const float* partial, int64_t chunks, const ChunkTargets& targets,
                cudaStream_t stream) {
  const int64_t width = targets.width();
  launch(add_chunks_kernel, {blocks_for(width, int64_t{kColumns}), kColumns * kDown}, stream,
         partial, chunks, targets, width);
}

int64_t column_sums_partial(const Matrix& m) {
  return blocks_for(m.rows, chunk_rows(m.rows)) * m.cols;
}

void column_sums(const Matrix& m, float* sums, float* partial, cudaStream_t stream) {
  const ChunkShape shape = chunk_shape(m, {m});
  with_type(m.type, [&]<class T>() {
    const auto sum = [&]<int N>() {
      launch(chunk_sums_kernel<T, N>, {shape.grid(), kChunkThreads}, stream, rows_of<const T>(m),
             shape, partial);
    };
    shape.length == 1 ? sum.template operator()<1>()
                      : sum.template operator()<16 / static_cast<int>(sizeof(T))>();
  });
  add_chunks(partial, shape.chunks(), {{sums, nullptr, nullptr}, {m.cols, 0, 0}}, stream);
}

}  // namespace dlrm::kernels
