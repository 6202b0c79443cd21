#pragma once
// Sums over the rows of matrices. The order depends on shapes only. A block sums a chunk of rows. A
// thread sums a few neighbouring columns over rows at a fixed stride. The threads of a column are
// added in order, then the chunks (add_chunks).
#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "kernels/rows.cuh"

namespace dlrm::kernels {

constexpr int kChunkThreads = 256;

/// Rows per chunk: large, so that there are few chunks to add, but small enough to fill a GPU.
inline int64_t chunk_rows(int64_t rows) {
  constexpr int64_t kMostChunks = 256, kLeastRows = 64;
  return blocks_for(std::max<int64_t>(rows, 1), kMostChunks * kLeastRows) * kLeastRows;
}

/// The layout of a chunk's threads: 2^shift threads across, each with `length` columns.
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

/// For matrices with `shape`'s rows and columns. Packs have 16 bytes if all matrices are aligned.
inline ChunkShape chunk_shape(const Matrix& shape, std::initializer_list<Matrix> matrices) {
  int length = 16 / static_cast<int>(size_of(shape.type));
  bool aligned = shape.cols % length == 0;
  for (const Matrix& m : matrices) {
    aligned &= reinterpret_cast<uintptr_t>(m.data) % 16 == 0;
    aligned &= m.stride % length == 0;
  }
  if (!aligned) length = 1;
  constexpr int kWarp = 32;
  const int across = block_shape(shape.cols / length, kWarp).shift;
  return {shape.rows, shape.cols, chunk_rows(shape.rows), length, across};
}

/// A thread's place in a chunk.
struct ChunkThread {
  int across, down, rows_apart;
  int64_t column;       ///< the first of the thread's columns
  int64_t first, last;  ///< rows first, first + rows_apart, ..., below last

  __device__ ChunkThread(const ChunkShape& shape, int length)
      : across(static_cast<int>(threadIdx.x) & ((1 << shape.shift) - 1)),
        down(static_cast<int>(threadIdx.x) >> shape.shift),
        rows_apart(kChunkThreads >> shape.shift) {
    column = ((static_cast<int64_t>(blockIdx.x) << shape.shift) + across) * length;
    first = blockIdx.y * shape.chunk + down;
    const int64_t end = (blockIdx.y + 1) * shape.chunk;
    last = end < shape.rows ? end : shape.rows;
    if (column >= shape.cols) last = 0;  // no column to read
  }
};

/// Adds the block's threads of each column in order and writes to[column]. Every thread of the
/// block calls it. `shared` has kChunkThreads·N floats.
template <int N>
__device__ void add_threads(const ChunkShape& shape, const ChunkThread& thread,
                            const float (&sums)[N], float* shared, float* to) {
  const int width = (1 << shape.shift) * N;  // columns of the block
  __syncthreads();                           // earlier uses of `shared` are done
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

/// Destinations of the sums: columns [0, counts[0]) to places[0], the next counts[1] to places[1],
/// and so on.
struct ChunkTargets {
  float* places[3];
  int64_t counts[3];
  int64_t width() const { return counts[0] + counts[1] + counts[2]; }
};
/// Sums partial [chunks, targets.width()] over the chunks (column_sums.cu).
void add_chunks(const float* partial, int64_t chunks, const ChunkTargets& targets,
                cudaStream_t stream);

}  // namespace dlrm::kernels
