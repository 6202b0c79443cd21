#pragma once
// Sums over the rows of matrices, in an order that depends on shapes alone: blocks take chunks of
// rows, a thread some neighbouring columns of every so many-th row; the threads of a column are
// added in order, then the chunks (add_chunks).
#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "kernels/rows.cuh"

namespace dlrm::kernels {

constexpr int kChunkThreads = 256;

/// Rows of a chunk: few enough chunks that adding them is little, enough to fill a GPU.
inline int64_t chunk_rows(int64_t rows) {
  constexpr int64_t kMostChunks = 256, kLeastRows = 64;
  return blocks_for(std::max<int64_t>(rows, 1), kMostChunks * kLeastRows) * kLeastRows;
}

/// How a chunk's threads lie: 2^shift side by side, of `length` columns each.
struct ChunkShape {
  int64_t rows, cols;
  int64_t chunk;
  int length;
  int shift;

  int64_t chunks() const { return blocks_for(rows, chunk); }
  dim3 grid() const {
    const int64_t groups = cols / length;
    return {static_cast<unsigned>(blocks_for(groups, int64_t{1} << shift)),
            static_cast<unsigned>(chunks())};
  }
};

/// For matrices of `shape`'s rows and columns: packs of 16 bytes where all of them allow it.
inline ChunkShape chunk_shape(const Matrix& shape, std::initializer_list<Matrix> matrices) {
  int length = 16 / static_cast<int>(size_of(shape.type));
  bool aligned = shape.cols % length == 0;
  for (const Matrix& m : matrices) {
    aligned &= reinterpret_cast<uintptr_t>(m.data) % 16 == 0;
    aligned &= m.rows <= 1 || m.stride % length == 0;
  }
  if (!aligned) length = 1;
  constexpr int kWarp = 32;
  const int across = block_shape(shape.cols / length, kWarp).shift;
  return {shape.rows, shape.cols, chunk_rows(shape.rows), length, across};
}

/// A thread's place in a chunk.
struct ChunkThread {
  int across, down, rows_apart;
  int64_t column;       ///< the first of its own
  int64_t first, last;  ///< rows: first, first + rows_apart ... below last

  __device__ ChunkThread(const ChunkShape& shape, int length)
      : across(static_cast<int>(threadIdx.x) & ((1 << shape.shift) - 1)),
        down(static_cast<int>(threadIdx.x) >> shape.shift),
        rows_apart(kChunkThreads >> shape.shift) {
    column = ((static_cast<int64_t>(blockIdx.x) << shape.shift) + across) * length;
    first = blockIdx.y * shape.chunk + down;
    const int64_t end = (blockIdx.y + 1) * shape.chunk;
    last = end < shape.rows ? end : shape.rows;
    if (column >= shape.cols) last = 0;  // nothing to read
  }
};

/// Adds the block's threads of each column in order and writes to[column]. Every thread calls it;
/// `shared` has kChunkThreads·N floats.
template <int N>
__device__ void add_threads(const ChunkShape& shape, const ChunkThread& thread,
                            const float (&sums)[N], float* shared, float* to) {
  const int width = (1 << shape.shift) * N;  // columns of the block
  __syncthreads();                           // whoever used `shared` before is done
#pragma unroll
  for (int i = 0; i < N; ++i) shared[thread.down * width + thread.across * N + i] = sums[i];
  __syncthreads();
  for (int t = static_cast<int>(threadIdx.x); t < width; t += kChunkThreads) {
    const int64_t column = static_cast<int64_t>(blockIdx.x) * width + t;
    if (column >= shape.cols) continue;
    float sum = shared[t];
    for (int d = 1; d < thread.rows_apart; ++d) sum += shared[d * width + t];
    to[column] = sum;
  }
}

/// Where sums of chunks go: columns [0, counts[0]) to places[0], the next counts[1] to places[1]...
struct ChunkTargets {
  float* places[3];
  int64_t counts[3];
  int64_t width() const { return counts[0] + counts[1] + counts[2]; }
};
/// Adds partial [chunks, targets.width()] over the chunks (column_sums.cu).
void add_chunks(const float* partial, int64_t chunks, const ChunkTargets& targets,
                cudaStream_t stream);

}  // namespace dlrm::kernels
