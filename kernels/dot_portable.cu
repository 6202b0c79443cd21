// z = [x, v_i · v_j for j < i], v = (x, e1..eF).
// Backward: dv_i = Σ_{j≠i} g_ij v_j, and dx also receives its own part of dz.
// Every product and every gradient is one chain of fused multiply-adds. A product takes columns in
// ascending order. A gradient takes vectors in ascending order. Results are bitwise equal to the
// CPU's with AVX2 or AVX-512.
// Bytes per sample, V = F + 1, s the size of an element: forward s·(F·D + 2·D + V(V-1)/2),
// backward s·(2·F·D + 3·D + V(V-1)/2). Limit: arithmetic in fp32 and shared memory.
// dot_mma.cu is the fast implementation.
#include <algorithm>

#include "kernels/dot.cuh"
#include "kernels/dot.h"
#include "kernels/launch.cuh"

namespace dlrm::kernels {
namespace {

constexpr int kTile = 4;  ///< a lane computes kTile x kTile products
constexpr int kForwardWarps = 4;
constexpr int kSharedBytes = 48 * 1024;

__device__ int tiles_before(int a) { return a * (a + 1) / 2; }

/// Copies columns [c0, c0 + n) of a sample's vectors to shared memory. Zeros after the last vector.
template <class T>
__device__ void stage(const T* x, const T* e, const DotShape& shape, int c0, int n, int rows,
                      int stride, float* to) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int v = 0; v < rows; ++v) {
    for (int c = lane; c < n; c += 32) {
      float value = 0;
      if (v == 0) {
        value = to_float(x[c0 + c]);
      } else if (v < shape.vectors) {
        value = to_float(e[static_cast<int64_t>(v - 1) * shape.width + c0 + c]);
      }
      to[v * stride + c] = value;
    }
  }
}

/// One warp per sample. Its lanes take tiles of the lower triangle in turn.
template <class T>
__global__ void dot_forward_kernel(Rows<const T> x, Rows<const T> e, Rows<T> z, DotShape shape,
                                   int piece) {
  DLRM_DYNAMIC_SHARED(float, shared);
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int64_t sample = static_cast<int64_t>(blockIdx.x) * (blockDim.x / 32) + warp;
  if (sample >= shape.samples) return;  // the whole warp returns
  const int bands = (shape.vectors + kTile - 1) / kTile, stride = piece + 1;
  float* v = shared + warp * bands * kTile * stride;
  T* out = z.row(sample);
  for (int c = lane; c < shape.width; c += 32) out[c] = x.row(sample)[c];
  out += shape.width;
  for (int first = 0; first < tiles_before(bands); first += 32) {
    const int tile = min(first + lane, tiles_before(bands) - 1);
    int a = 0;
    while (tiles_before(a + 1) <= tile) ++a;
    const int b = tile - tiles_before(a);
    float sum[kTile][kTile] = {};
    for (int c0 = 0; c0 < shape.width; c0 += piece) {
      const int n = min(piece, shape.width - c0);
      __syncwarp();
      stage(x.row(sample), e.row(sample), shape, c0, n, bands * kTile, stride, v);
      __syncwarp();
      const float* left = v + a * kTile * stride;
      const float* right = v + b * kTile * stride;
      for (int c = 0; c < n; ++c) {
#pragma unroll
        for (int i = 0; i < kTile; ++i) {
#pragma unroll
          for (int j = 0; j < kTile; ++j) {
            sum[i][j] = __fmaf_rn(left[i * stride + c], right[j * stride + c], sum[i][j]);
          }
        }
      }
    }
    if (first + lane >= tiles_before(bands)) continue;
#pragma unroll
    for (int i = 0; i < kTile; ++i) {
#pragma unroll
      for (int j = 0; j < kTile; ++j) {
        const int row = a * kTile + i, column = b * kTile + j;
        if (row < shape.vectors && column < row) {
          out[products_before(row) + column] = from_float<T>(sum[i][j]);
        }
      }
    }
  }
}

constexpr int kBand = 8;  ///< vectors whose gradients are summed together

/// One block per sample, one thread per column. Factors of `piece` vectors at a time are shared.
template <class T>
__global__ void dot_backward_kernel(Rows<const T> x, Rows<const T> e, Rows<const T> dz, Rows<T> dx,
                                    Rows<T> de, DotShape shape, int piece) {
  DLRM_DYNAMIC_SHARED(float, factors);  // [piece, kBand]: of products with the band's vectors
  const int64_t sample = blockIdx.x;
  const T* x_row = x.row(sample);
  const T* e_row = e.row(sample);
  const T* g = dz.row(sample) + shape.width;
  const int threads = static_cast<int>(blockDim.x);
  for (int first = 0; first < shape.vectors; first += kBand) {
    for (int c0 = 0; c0 < shape.width; c0 += threads) {
      const int c = c0 + static_cast<int>(threadIdx.x);
      float sum[kBand] = {};
      for (int j0 = 0; j0 < shape.vectors; j0 += piece) {
        const int count = min(piece, shape.vectors - j0);
        if (c0 == 0 || piece < shape.vectors) {
          __syncthreads();
          for (int k = static_cast<int>(threadIdx.x); k < count * kBand; k += threads) {
            const int j = j0 + k / kBand, i = first + k % kBand;
            const bool product = i != j && i < shape.vectors;
            factors[k] = product ? to_float(g[product_at(i, j)]) : 0.0f;
          }
          __syncthreads();
        }
        if (c >= shape.width) continue;
        for (int j = j0; j < j0 + count; ++j) {
          const float v =
              to_float(j == 0 ? x_row[c] : e_row[static_cast<int64_t>(j - 1) * shape.width + c]);
#pragma unroll
          for (int i = 0; i < kBand; ++i) {
            sum[i] = __fmaf_rn(factors[(j - j0) * kBand + i], v, sum[i]);
          }
        }
      }
      if (c >= shape.width) continue;
#pragma unroll
      for (int i = 0; i < kBand; ++i) {
        const int row = first + i;
        if (row == 0) {
          dx.row(sample)[c] = from_float<T>(__fadd_rn(sum[i], to_float(dz.row(sample)[c])));
        } else if (row < shape.vectors) {
          const int64_t at = static_cast<int64_t>(row - 1) * shape.width + c;
          de.row(sample)[at] = from_float<T>(sum[i]);
        }
      }
    }
  }
}

template <class T>
void forward(const Matrix& x, const Matrix& e, const Matrix& z, cudaStream_t stream) {
  const DotShape shape = dot_shape(x, e.cols);
  const int rows = blocks_for(shape.vectors, kTile) * kTile;
  const auto bytes = [&](int warps, int piece) { return warps * rows * (piece + 1) * 4; };
  int warps = kForwardWarps, piece = 32;
  while (warps > 1 && bytes(warps, piece) > kSharedBytes) warps /= 2;
  while (piece > 1 && bytes(warps, piece) > kSharedBytes) piece /= 2;
  launch(dot_forward_kernel<T>,
         {blocks_for(shape.samples, warps), warps * 32, static_cast<size_t>(bytes(warps, piece))},
         stream, rows_of<const T>(x), rows_of<const T>(e), rows_of<T>(z), shape, piece);
}

template <class T>
void backward(const Matrix& x, const Matrix& e, const Matrix& dz, const Matrix& dx,
              const Matrix& de, cudaStream_t stream) {
  const DotShape shape = dot_shape(x, e.cols);
  const int threads = std::clamp((shape.width + 31) / 32 * 32, 32, 256);
  const int piece = std::min(shape.vectors, kSharedBytes / (4 * kBand));
  launch(dot_backward_kernel<T>,
         {shape.samples, threads, sizeof(float) * static_cast<size_t>(piece * kBand)}, stream,
         rows_of<const T>(x), rows_of<const T>(e), rows_of<const T>(dz), rows_of<T>(dx),
         rows_of<T>(de), shape, piece);
}

}  // namespace

void dot_forward_portable(const Matrix& x, const Matrix& e, const Matrix& z, cudaStream_t stream) {
  with_type(x.type, [&]<class T>() { forward<T>(x, e, z, stream); });
}

void dot_backward_portable(const Matrix& x, const Matrix& e, const Matrix& dz, const Matrix& dx,
                           const Matrix& de, cudaStream_t stream) {
  with_type(x.type, [&]<class T>() { backward<T>(x, e, dz, dx, de, stream); });
}

}  // namespace dlrm::kernels
