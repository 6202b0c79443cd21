// sums[c] = Σ_r m[r, c] in fp32: a thread adds every eighth row of a chunk, a block's eight threads
// of a column are added in order, then the chunks in order. Reads s bytes an element, once:
// bandwidth.
#include "kernels/column_sums.h"
#include "kernels/rows.cuh"

namespace dlrm::kernels {
namespace {

constexpr int kColumns = 32;     // of a block
constexpr int kDown = 8;         // threads of a column
constexpr int64_t kChunk = 512;  // rows of a block

int64_t chunks(const Matrix& m) { return blocks_for(m.rows, kChunk); }

template <class T>
__global__ void chunk_sums_kernel(Rows<const T> m, int64_t rows, int64_t cols, float* partial) {
  DLRM_SHARED(float, sums, kDown* kColumns);
  const unsigned across = threadIdx.x % kColumns, down = threadIdx.x / kColumns;
  const int64_t c = blockIdx.x * int64_t{kColumns} + across;
  const int64_t first = blockIdx.y * kChunk;
  const int64_t last = first + kChunk < rows ? first + kChunk : rows;
  float sum = 0;
  if (c < cols) {
    for (int64_t r = first + down; r < last; r += kDown) sum += to_float(m.row(r)[c]);
  }
  sums[down * kColumns + across] = sum;
  __syncthreads();
  if (down != 0 || c >= cols) return;
  for (int d = 1; d < kDown; ++d) sum += sums[d * kColumns + across];
  partial[blockIdx.y * cols + c] = sum;
}

__global__ void add_chunks_kernel(const float* partial, int64_t chunks, int64_t cols, float* sums) {
  const int64_t c = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (c >= cols) return;
  float sum = 0;
  for (int64_t i = 0; i < chunks; ++i) sum += partial[i * cols + c];
  sums[c] = sum;
}

}  // namespace

int64_t column_sums_partial(const Matrix& m) { return chunks(m) * m.cols; }

void column_sums(const Matrix& m, float* sums, float* partial, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(blocks_for(m.cols, int64_t{kColumns})),
                  static_cast<unsigned>(chunks(m)));
  with_type(m.type, [&]<class T>() {
    launch(chunk_sums_kernel<T>, {grid, kColumns * kDown}, stream, rows_of<const T>(m), m.rows,
           m.cols, partial);
  });
  launch(add_chunks_kernel, {blocks_for(m.cols, int64_t{128}), 128}, stream, partial, chunks(m),
         m.cols, sums);
}

}  // namespace dlrm::kernels
