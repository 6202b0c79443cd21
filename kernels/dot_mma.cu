// z = [x, v_i · v_j for j < i], v = (x, e1..eF), V = F + 1 <= 32.
// Backward: dV = S V, and dx also receives its own part of dz. S holds the gradients of the
// products. It is symmetric with a zero diagonal.
//
// The tensor cores multiply bf16 and sum in fp32. A float is split exactly into three parts of 8
// bits: v = v1 + v2 + v3. Products of parts i and j with i + j <= 4 are summed. The omitted ones
// are 2^-24 of a product, like fp32 rounding.
//
// A warp computes one sample. Only z passes through shared memory. The sum over columns may take
// them in any order. So a lane's elements of a step of 16 are four neighbouring columns, read by
// one load. The fragments of V serve as A and as B.
//
// Bytes per sample, s the size of an element: forward s·(F·D + 2·D + V(V-1)/2), backward
// s·(2·F·D + 3·D + V(V-1)/2). For F 26, D 128 in fp32: 15.7 and 29.6 KB, with 288 and 384 products
// of 16x8x16; in bf16 half of the bytes and a sixth of the products. At 4.8 TB/s and about 1.6
// cycles of a multiprocessor per product, those of fp32 take two thirds and half of the time that
// the bytes take. Limit: memory bandwidth.
#include "kernels/dot.cuh"
#include "kernels/dot.h"
#include "kernels/launch.cuh"
#include "kernels/mma.cuh"

namespace dlrm::kernels {
namespace {

constexpr int kWarps = 4;
constexpr int kMostVectors = 32;
constexpr int kColumns = 4;  ///< that a lane loads at once

/// Parts of a split element: three hold all bits of a float.
template <class T>
constexpr int kParts = sizeof(T) == 4 ? 3 : 1;

template <class T>
constexpr int kPerVector = 16 / static_cast<int>(sizeof(T));  ///< elements of a 16-byte access

/// A lane's place in the fragments (mma.cuh).
struct Lane {
  int index = static_cast<int>(threadIdx.x % 32);
  int g = index / 4;
  int t = index % 4;
};

template <class T>
using Four = Pack<T, kColumns>;

/// A pair of elements in parts.
__device__ __forceinline__ SplitPair<kParts<float>> parts_of(float a, float b) {
  return split_pair<kParts<float>>(a, b);
}
__device__ __forceinline__ SplitPair<kParts<Bf16>> parts_of(Bf16 a, Bf16 b) {
  return {{pack_bits(a.bits, b.bits)}};
}

/// One sample's vectors in global memory.
template <class T>
struct Vectors {
  const T* x;
  const T* e;
  DotShape shape;

  /// Columns [c, c + 4) of vector v. Zeros beyond the last vector and beyond the last column.
  __device__ __forceinline__ Four<T> four(int v, int c) const {
    if (v >= shape.vectors || c >= shape.width) return {};
    return load_pack<kColumns>(v == 0 ? x + c : e + (v - 1) * shape.width + c);
  }
};

/// Copies elements [0, count) of a row. The row starts `shift` elements after a 16-byte boundary,
/// both in memory and in `staged`. Copies 16 bytes at a time except at the ends.
template <class T, class Out, class In>
__device__ __forceinline__ void copy_row(const In* from, Out* to, int shift, int count, int lane) {
  constexpr int kPer = kPerVector<T>;
  const int end = shift + count;
  const int head = min((shift + kPer - 1) / kPer * kPer, end), tail = max(end / kPer * kPer, head);
  for (int i = shift + lane; i < head; i += 32) to[i] = from[i];
  for (int i = head / kPer + lane; i < tail / kPer; i += 32) {
    reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
  }
  for (int i = tail + lane; i < end; i += 32) to[i] = from[i];
}

/// Elements from the last 16-byte boundary at or before p to p.
template <class T>
__device__ __forceinline__ int shift_of(const T* p) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(p) % 16 / sizeof(T));
}

/// Elements of shared memory for a warp's row of z, for any alignment of the row.
template <class T>
__host__ __device__ constexpr int staged_size(const DotShape& shape) {
  const int count = shape.width + products_before(shape.vectors) + kPerVector<T> - 1;
  return (count + kPerVector<T> - 1) / kPerVector<T> * kPerVector<T>;
}

/// A [16, 16] block, split into parts, as fragments.
template <class T>
struct Split {
  uint32_t part[kParts<T>][4];

  __device__ __forceinline__ void set(int r, T a, T b) {
    const auto pair = parts_of(a, b);
#pragma unroll
    for (int i = 0; i < kParts<T>; ++i) part[i][r] = pair.part[i];
  }
};

template <class T>
__device__ __forceinline__ Split<T> split_block(const Four<T>& upper, const Four<T>& lower) {
  Split<T> s;
  s.set(0, upper.at[0], upper.at[1]);
  s.set(1, lower.at[0], lower.at[1]);
  s.set(2, upper.at[2], upper.at[3]);
  s.set(3, lower.at[2], lower.at[3]);
  return s;
}

/// Products of bands [16, .] and [8, .]: sums[i][j] of rows 16i.. and 8j.., j < 2i + 2.
template <class T, int kBands>
__device__ __forceinline__ void multiply(const Split<T> (&v)[kBands],
                                         float (&sums)[kBands][2 * kBands][4]) {
#pragma unroll
  for (int p = 0; p < kParts<T>; ++p) {
#pragma unroll
    for (int q = 0; p + q < kParts<T>; ++q) {
#pragma unroll
      for (int i = 0; i < kBands; ++i) {
#pragma unroll
        for (int j = 0; j < 2 * i + 2; ++j) {
          const uint32_t(&b)[4] = v[j / 2].part[q];
          mma_bf16(sums[i][j], v[i].part[p], b[j % 2], b[j % 2 + 2]);
        }
      }
    }
  }
}

/// kBands: bands of 16 vectors.
template <class T, int kBands>
__global__ void __launch_bounds__(kWarps * 32, sizeof(T) == 4 ? 4 : 6)
    dot_forward_mma_kernel(Rows<const T> x, Rows<const T> e, Rows<T> z, DotShape shape) {
  DLRM_DYNAMIC_SHARED(T, shared);
  const Lane lane;
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int64_t sample = static_cast<int64_t>(blockIdx.x) * kWarps + warp;
  if (sample >= shape.samples) return;  // the whole warp returns
  const Vectors<T> v{x.row(sample), e.row(sample), shape};

  float sums[kBands][2 * kBands][4] = {};
  Four<T> next[2 * kBands];
#pragma unroll
  for (int r = 0; r < 2 * kBands; ++r) next[r] = v.four(8 * r + lane.g, 4 * lane.t);
  for (int c = 0; c < shape.width; c += 16) {
    Split<T> block[kBands];
#pragma unroll
    for (int i = 0; i < kBands; ++i) block[i] = split_block(next[2 * i], next[2 * i + 1]);
#pragma unroll
    for (int r = 0; r < 2 * kBands; ++r) next[r] = v.four(8 * r + lane.g, c + 16 + 4 * lane.t);
    multiply(block, sums);
  }

  T* out = z.row(sample);
  const int shift = shift_of(out);
  T* staged = shared + warp * staged_size<T>(shape);
  for (int c = lane.index; c < shape.width; c += 32) staged[shift + c] = v.x[c];
  T* products = staged + shift + shape.width;
#pragma unroll
  for (int i = 0; i < kBands; ++i) {
#pragma unroll
    for (int j = 0; j < 2 * i + 2; ++j) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int row = 16 * i + lane.g + 8 * (k / 2), column = 8 * j + 2 * lane.t + k % 2;
        if (column < row && row < shape.vectors) {
          products[products_before(row) + column] = from_float<T>(sums[i][j][k]);
        }
      }
    }
  }
  __syncwarp();
  copy_row<T>(staged, out - shift, shift, shape.width + products_before(shape.vectors), lane.index);
}

/// Element (i, j) of S.
template <class T>
__device__ __forceinline__ T gradient_at(const T* products, int i, int j, int vectors) {
  return i == j || i >= vectors || j >= vectors ? T{} : products[product_at(i, j)];
}

/// S from row 16i and column 16k.
template <class T>
__device__ __forceinline__ Split<T> gradient_block(const T* products, int i, int k, int vectors,
                                                   const Lane& lane) {
  Split<T> s;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int row = 16 * i + lane.g + 8 * (r % 2), column = 16 * k + 2 * lane.t + 8 * (r / 2);
    s.set(r, gradient_at(products, row, column, vectors),
          gradient_at(products, row, column + 1, vectors));
  }
  return s;
}

/// The vector of a lane's r-th row within a step of 16. The fragments of B hold pairs of rows.
__device__ __forceinline__ int row_of_step(int r, int t) { return 2 * t + r % 2 + 8 * (r / 2); }

/// sums[i][q] += rows 16i.. of S times column q of each lane's four.
template <class T, int kBands>
__device__ __forceinline__ void multiply_gradients(const Split<T> (&s)[kBands][kBands],
                                                   const Four<T> (&v)[kBands][4],
                                                   float (&sums)[kBands][kColumns][4]) {
#pragma unroll
  for (int k = 0; k < kBands; ++k) {
#pragma unroll
    for (int q = 0; q < kColumns; ++q) {
      const auto b0 = parts_of(v[k][0].at[q], v[k][1].at[q]);
      const auto b1 = parts_of(v[k][2].at[q], v[k][3].at[q]);
#pragma unroll
      for (int p = 0; p < kParts<T>; ++p) {
#pragma unroll
        for (int part = 0; p + part < kParts<T>; ++part) {
#pragma unroll
          for (int i = 0; i < kBands; ++i) {
            mma_bf16(sums[i][q], s[i][k].part[p], b0.part[part], b1.part[part]);
          }
        }
      }
    }
  }
}

/// The first column of the n-th lane's four, within a step of 32. A lane's part of a result (n = 2t
/// and 2t + 1) is then columns 4t.. and 16 + 4t..: whole sectors of a row.
__device__ __forceinline__ int first_column(int n) { return n % 2 * 16 + n / 2 * 4; }

template <class T, int kBands>
__global__ void __launch_bounds__(kWarps * 32, sizeof(T) == 4 ? 3 : 4)
    dot_backward_mma_kernel(Rows<const T> x, Rows<const T> e, Rows<const T> dz, Rows<T> dx,
                            Rows<T> de, DotShape shape) {
  DLRM_DYNAMIC_SHARED(T, shared);
  const Lane lane;
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int64_t sample = static_cast<int64_t>(blockIdx.x) * kWarps + warp;
  if (sample >= shape.samples) return;  // the whole warp returns
  const Vectors<T> v{x.row(sample), e.row(sample), shape};
  const T* g = dz.row(sample);
  const int shift = shift_of(g);
  T* staged = shared + warp * staged_size<T>(shape);
  copy_row<T>(g - shift, staged, shift, shape.width + products_before(shape.vectors), lane.index);
  __syncwarp();
  const T* own = staged + shift;
  Split<T> s[kBands][kBands];
#pragma unroll
  for (int i = 0; i < kBands; ++i) {
#pragma unroll
    for (int k = 0; k < kBands; ++k) {
      s[i][k] = gradient_block(own + shape.width, i, k, shape.vectors, lane);
    }
  }

  for (int c0 = 0; c0 < shape.width; c0 += 32) {
    Four<T> rows[kBands][4];
#pragma unroll
    for (int k = 0; k < kBands; ++k) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        rows[k][r] = v.four(16 * k + row_of_step(r, lane.t), c0 + first_column(lane.g));
      }
    }
    float sums[kBands][kColumns][4] = {};
    multiply_gradients(s, rows, sums);
#pragma unroll
    for (int i = 0; i < kBands; ++i) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int row = 16 * i + lane.g + 8 * (k / 2), c = c0 + first_column(2 * lane.t + k % 2);
        if (row >= shape.vectors || c >= shape.width) continue;
        Four<T> sum;
#pragma unroll
        for (int q = 0; q < kColumns; ++q) {
          const float passed = row == 0 ? to_float(own[c + q]) : 0.0f;
          sum.at[q] = from_float<T>(__fadd_rn(sums[i][q][k], passed));
        }
        store_pack(row == 0 ? dx.row(sample) + c : de.row(sample) + (row - 1) * shape.width + c,
                   sum);
      }
    }
  }
}

template <class T, int kBands>
void forward(const Matrix& x, const Matrix& e, const Matrix& z, const DotShape& shape,
             cudaStream_t stream) {
  const size_t bytes = sizeof(T) * kWarps * static_cast<size_t>(staged_size<T>(shape));
  launch(dot_forward_mma_kernel<T, kBands>, {blocks_for(shape.samples, kWarps), kWarps * 32, bytes},
         stream, rows_of<const T>(x), rows_of<const T>(e), rows_of<T>(z), shape);
}

template <class T, int kBands>
void backward(const Matrix& x, const Matrix& e, const Matrix& dz, const Matrix& dx,
              const Matrix& de, const DotShape& shape, cudaStream_t stream) {
  const size_t bytes = sizeof(T) * kWarps * static_cast<size_t>(staged_size<T>(shape));
  launch(dot_backward_mma_kernel<T, kBands>,
         {blocks_for(shape.samples, kWarps), kWarps * 32, bytes}, stream, rows_of<const T>(x),
         rows_of<const T>(e), rows_of<const T>(dz), rows_of<T>(dx), rows_of<T>(de), shape);
}

/// Calls body.operator()<T, kBands>().
template <class Body>
void choose(DType type, int vectors, const Body& body) {
  with_type(type, [&]<class T>() {
    vectors <= 16 ? body.template operator()<T, 1>() : body.template operator()<T, 2>();
  });
}

bool aligned(const Matrix& m) {
  return reinterpret_cast<uintptr_t>(m.data) % (kColumns * size_of(m.type)) == 0 &&
         m.stride % kColumns == 0;
}

}  // namespace

bool dot_mma_takes(const Matrix& x, const Matrix& e) {
  if (x.cols % kColumns != 0 || x.cols > 1024 || 1 + e.cols / x.cols > kMostVectors) return false;
  return aligned(x) && aligned(e) && x.type != DType::kFloat16;
}

void dot_forward_mma(const Matrix& x, const Matrix& e, const Matrix& z, cudaStream_t stream) {
  const DotShape shape = dot_shape(x, e.cols);
  choose(x.type, shape.vectors,
         [&]<class T, int kBands>() { forward<T, kBands>(x, e, z, shape, stream); });
}

void dot_backward_mma(const Matrix& x, const Matrix& e, const Matrix& dz, const Matrix& dx,
                      const Matrix& de, cudaStream_t stream) {
  const DotShape shape = dot_shape(x, e.cols);
  choose(x.type, shape.vectors,
         [&]<class T, int kBands>() { backward<T, kBands>(x, e, dz, dx, de, shape, stream); });
}

}  // namespace dlrm::kernels
