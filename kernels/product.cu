// d[i, j] = Σ_k a[i, k] b[k, j] [+ c[i, j]], k in order, in fp32.
// A block computes 32 x 32 elements from tiles of 32 k in shared memory. A thread computes four of
// them. The 2·m·n·k operations run at a small part of the GPU's rate: the kernel is correct for
// every shape, not fast.
#include "kernels/product.h"
#include "kernels/rows.cuh"

namespace dlrm::kernels {
namespace {

constexpr int kTile = 32;
constexpr int kThreads = 256;
constexpr int kRowsApart = kThreads / kTile;  // a thread's rows are 8 apart
constexpr int kPitch = kTile + 1;             // neighbours in a column are in different banks

/// A matrix as op(m): element (r, c) is data[r·down + c·across].
template <class T>
struct Operand {
  const T* data;
  int64_t down, across;
  __device__ float at(int64_t r, int64_t c) const { return to_float(data[r * down + c * across]); }
};

template <class T, class D>
__global__ void product_kernel(Operand<T> a, Operand<T> b, Rows<const D> c, Rows<D> d, int64_t m,
                               int64_t n, int64_t k) {
  DLRM_SHARED(float, left, kTile* kPitch);
  DLRM_SHARED(float, right, kTile* kPitch);
  const int x = threadIdx.x % kTile, y = threadIdx.x / kTile;
  const int64_t row = blockIdx.x * int64_t{kTile}, column = blockIdx.y * int64_t{kTile};
  float sums[kTile / kRowsApart] = {};
  for (int64_t first = 0; first < k; first += kTile) {
    for (int r = y; r < kTile; r += kRowsApart) {
      left[r * kPitch + x] = row + r < m && first + x < k ? a.at(row + r, first + x) : 0;
      right[r * kPitch + x] = first + r < k && column + x < n ? b.at(first + r, column + x) : 0;
    }
    __syncthreads();
    const int depth = k - first < kTile ? static_cast<int>(k - first) : kTile;
    for (int i = 0; i < depth; ++i) {
#pragma unroll
      for (int s = 0; s < kTile / kRowsApart; ++s) {
        sums[s] += left[(y + s * kRowsApart) * kPitch + i] * right[i * kPitch + x];
      }
    }
    __syncthreads();
  }
  for (int s = 0; s < kTile / kRowsApart; ++s) {
    const int64_t r = row + y + s * kRowsApart;
    if (r >= m || column + x >= n) continue;
    const float sum = c.data != nullptr ? sums[s] + to_float(c.row(r)[column + x]) : sums[s];
    d.row(r)[column + x] = from_float<D>(sum);
  }
}

template <class T>
Operand<T> operand(const Matrix& m, bool transpose) {
  const auto* data = static_cast<const T*>(m.data);
  return transpose ? Operand<T>{data, 1, m.stride} : Operand<T>{data, m.stride, 1};
}

}  // namespace

void product(const Matrix& a, bool transpose_a, const Matrix& b, bool transpose_b, const Matrix& c,
             const Matrix& d, cudaStream_t stream) {
  const int64_t k = transpose_a ? a.rows : a.cols;
  const dim3 grid(static_cast<unsigned>(blocks_for(d.rows, int64_t{kTile})),
                  static_cast<unsigned>(blocks_for(d.cols, int64_t{kTile})));
  with_type(a.type, [&]<class T>() {
    with_type(d.type, [&]<class D>() {
      launch(product_kernel<T, D>, {grid, kThreads}, stream, operand<T>(a, transpose_a),
             operand<T>(b, transpose_b), rows_of<const D>(c), rows_of<D>(d), d.rows, d.cols, k);
    });
  });
}

}  // namespace dlrm::kernels
