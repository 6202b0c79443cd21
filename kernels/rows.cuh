#pragma once
// Rows of elements, and kernels that process every element alike.
#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "dlrm/core/view.h"

#include "kernels/bf16.cuh"
#include "kernels/launch.cuh"

namespace dlrm::kernels {

template <class T>
struct Rows {
  T* data;
  int64_t stride;
  __device__ T* row(int64_t r) const { return data + r * stride; }
};

template <class T>
Rows<T> rows_of(const Matrix& m) {
  return {static_cast<T*>(m.data), m.stride};
}

/// N neighbouring elements, read or written in one access.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};
template <int N, class T>
__device__ __forceinline__ Pack<T, N> load_pack(const T* p) {
  return *reinterpret_cast<const Pack<T, N>*>(p);
}
template <class T, int N>
__device__ __forceinline__ void store_pack(T* p, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(p) = pack;
}

/// The elements of matrices of one shape, in groups of `length`. If no matrix has gaps, all
/// elements are one long row.
struct Extents {
  int64_t rows = 0;
  int64_t cols = 0;
  int length = 1;  ///< 16 bytes of the widest type if all rows are aligned to that, otherwise 1
};

inline Extents extents(std::initializer_list<Matrix> matrices) {
  const Matrix& first = *matrices.begin();
  Extents all{first.rows, first.cols, 8};
  bool gaps = false;
  for (const Matrix& m : matrices) {
    all.length = std::min(all.length, 16 / static_cast<int>(size_of(m.type)));
    gaps |= m.stride != m.cols;
  }
  if (!gaps) all = {1, all.rows * all.cols, all.length};
  bool aligned = all.cols % all.length == 0;
  for (const Matrix& m : matrices) {
    const size_t bytes = size_of(m.type) * static_cast<size_t>(all.length);
    aligned &= reinterpret_cast<uintptr_t>(m.data) % bytes == 0;
    aligned &= !gaps || m.stride % all.length == 0;
  }
  if (!aligned) all.length = 1;
  return all;
}

/// The layout of a block's threads: 2^shift threads across the columns, `down` threads down the
/// rows.
struct BlockShape {
  int shift;
  int across() const { return 1 << shift; }
  int down(int threads) const { return threads >> shift; }
};
inline BlockShape block_shape(int64_t across, int threads) {
  int shift = 0;
  while ((1 << shift) < threads && (1 << shift) < across) ++shift;
  return {shift};
}

/// Calls body(r, c) for each row and each `length`-th column.
template <class Body>
__global__ void over_elements_kernel(int64_t rows, int64_t groups, int length, int shift,
                                     Body body) {
  const int64_t across = 1 << shift, down = blockDim.x >> shift;
  const int64_t group = blockIdx.x * across + (threadIdx.x & (across - 1));
  if (group >= groups) return;
  for (int64_t r = blockIdx.y * down + (threadIdx.x >> shift); r < rows; r += gridDim.y * down) {
    body(r, group * length);
  }
}

template <class Body>
void over_elements(const Extents& all, const Body& body, cudaStream_t stream) {
  constexpr int kThreads = 256;
  constexpr int64_t kMostBlocksDown = 65535;
  const int64_t groups = all.cols / all.length;
  const BlockShape shape = block_shape(groups, kThreads);
  const int64_t down = blocks_for(all.rows, static_cast<int64_t>(shape.down(kThreads)));
  const dim3 grid(static_cast<unsigned>(blocks_for(groups, static_cast<int64_t>(shape.across()))),
                  static_cast<unsigned>(std::min(down, kMostBlocksDown)));
  launch(over_elements_kernel<Body>, {grid, kThreads}, stream, all.rows, groups, all.length,
         shape.shift, body);
}

/// Calls body.operator()<T>() with the element type of `type`, for types that kernels compute in.
template <class Body>
void with_type(DType type, const Body& body) {
  switch (type) {
    case DType::kFloat32:
      return body.template operator()<float>();
    case DType::kBFloat16:
      return body.template operator()<Bf16>();
    case DType::kFloat16:
      return refuse_type(type);
  }
}

/// Like the function above, for all types. For kernels that only move data.
template <class Body>
void with_any_type(DType type, const Body& body) {
  switch (type) {
    case DType::kFloat32:
      return body.template operator()<float>();
    case DType::kBFloat16:
      return body.template operator()<Bf16>();
    case DType::kFloat16:
      return body.template operator()<Fp16>();
  }
}

/// Calls body.operator()<N>() with N = 1 if all.length is 1, otherwise kLength.
template <int kLength, class Body>
void with_length(const Extents& all, const Body& body) {
  all.length == 1 ? body.template operator()<1>() : body.template operator()<kLength>();
}

}  // namespace dlrm::kernels
