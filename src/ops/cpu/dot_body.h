#pragma once
// Dot interaction of one sample: v vᵀ as a small matrix product. See vec.h for the rules.
#include "cpu/elementwise_body.h"
#include "cpu/kernels.h"
#include "cpu/vec.h"

namespace dlrm::cpu {
namespace {

inline int64_t rounded_up(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

/// Rows of v that are processed as a unit: their products share the loads of the other operand.
constexpr int kRowsTogether = 4;

/// Scratch of one thread: v [vectors, padded width], v's transpose or the gradients of its
/// products, and an output row.
struct DotScratch {
  int64_t width;    ///< length of a row of v, padded with zeros
  int64_t columns;  ///< vectors, padded
  float* v;
  float* square;  ///< forward: vᵀ [width, columns]; backward: symmetric [vectors, columns]
  float* row;     ///< [kRowsTogether, max(width, columns)]

  DotScratch(int64_t vectors, int64_t w, float* base)
      : width(rounded_up(w)), columns(rounded_up(vectors)), v(base) {
    square = v + rounded_up(vectors + kRowsTogether) * width;
    row = square + rounded_up(vectors + kRowsTogether) * columns + width * columns;
  }
};

int64_t dot_scratch(int64_t vectors, int64_t width) {
  float origin = 0;
  const DotScratch s(vectors, width, &origin);
  return (s.row - s.v) + kRowsTogether * (s.width + s.columns);
}

template <class T>
inline void load_vectors(const T* x, const T* e, int64_t vectors, int64_t width,
                         const DotScratch& s) {
  for_pieces(width, [&]<int N>(int64_t c) { store<N>(s.v + c, load<N>(x + c)); });
  for (int64_t i = 1; i < vectors; ++i) {
    const T* from = e + (i - 1) * width;
    float* to = s.v + i * s.width;
    for_pieces(width, [&]<int N>(int64_t c) { store<N>(to + c, load<N>(from + c)); });
  }
}

/// out[r, j..j+V·lanes) = Σ_k a[i + r, k] · b[k, j..), R rows at once.
template <int R, int V>
inline void multiply_tile(const float* a, int64_t lda, const float* b, int64_t ldb, int64_t depth,
                          float* out, int64_t ldo) {
  Floats<kLanes> sum[R][V] = {};
  for (int64_t k = 0; k < depth; ++k) {
    Floats<kLanes> right[V];
    for (int q = 0; q < V; ++q) right[q] = load<kLanes>(b + k * ldb + q * kLanes);
    for (int r = 0; r < R; ++r) {
      const Floats<kLanes> left = broadcast<kLanes>(a[r * lda + k]);
      for (int q = 0; q < V; ++q) sum[r][q] = multiply_add<kLanes>(left, right[q], sum[r][q]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int q = 0; q < V; ++q) store<kLanes>(out + r * ldo + q * kLanes, sum[r][q]);
  }
}

/// out [kRowsTogether, n] = a [kRowsTogether, depth] · b [depth, n]; n a multiple of the lanes.
inline void multiply_rows(const float* a, int64_t lda, const float* b, int64_t ldb, int64_t depth,
                          int64_t n, float* out, int64_t ldo) {
  int64_t j = 0;
  for (; j + 2 * kLanes <= n; j += 2 * kLanes) {
    multiply_tile<kRowsTogether, 2>(a, lda, b + j, ldb, depth, out + j, ldo);
  }
  if (j < n) multiply_tile<kRowsTogether, 1>(a, lda, b + j, ldb, depth, out + j, ldo);
}

inline void transpose4(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  __m128 r0 = _mm_loadu_ps(from), r1 = _mm_loadu_ps(from + from_stride);
  __m128 r2 = _mm_loadu_ps(from + 2 * from_stride), r3 = _mm_loadu_ps(from + 3 * from_stride);
  _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
  _mm_storeu_ps(to, r0);
  _mm_storeu_ps(to + to_stride, r1);
  _mm_storeu_ps(to + 2 * to_stride, r2);
  _mm_storeu_ps(to + 3 * to_stride, r3);
}

/// s.square = vᵀ, transposed in 4 x 4 tiles. Both sides are padded to multiples of 4.
inline void transpose(const DotScratch& s, int64_t vectors, int64_t width) {
  for (int64_t i = 0; i < vectors; i += 4) {
    for (int64_t c = 0; c < width; c += 4) {
      transpose4(s.v + i * s.width + c, s.width, s.square + c * s.columns + i, s.columns);
    }
  }
}

/// Writes the products of rows [i, i + rows) of v with the preceding rows to `out`, row by row.
/// Returns their end. May store a whole vector if fewer products are needed: later stores overwrite
/// the excess, and no store passes `end`. All vectors fit V registers.
template <int V, class T>
inline T* multiply_triangle(const DotScratch& s, int64_t depth, int64_t i, int64_t rows, T* out,
                            const T* end) {
  Floats<kLanes> sum[kRowsTogether][V] = {};
  const float* a = s.v + i * s.width;
  for (int64_t k = 0; k < depth; ++k) {
    Floats<kLanes> right[V];
    for (int q = 0; q < V; ++q) right[q] = load<kLanes>(s.square + k * s.columns + q * kLanes);
    for (int r = 0; r < kRowsTogether; ++r) {
      const Floats<kLanes> left = broadcast<kLanes>(a[r * s.width + k]);
      for (int q = 0; q < V; ++q) sum[r][q] = multiply_add<kLanes>(left, right[q], sum[r][q]);
    }
  }
  for (int r = 0; r < rows; ++r) {
    const int64_t n = i + r;
    for (int q = 0; q < V && q * kLanes < n; ++q) {
      T* to = out + q * kLanes;
      if (to + kLanes <= end) {
        store<kLanes>(to, sum[r][q]);
        continue;
      }
      float rest[kLanes];
      store<kLanes>(rest, sum[r][q]);
      for_pieces(n - q * kLanes, [&]<int N>(int64_t c) { store<N>(to + c, load<N>(rest + c)); });
    }
    out += n;
  }
  return out;
}

template <class T>
void dot_forward_of(const Matrix& x, const Matrix& e, const Matrix& z, int64_t r0, int64_t r1,
                    float* scratch) {
  const int64_t width = x.cols;
  const int64_t vectors = 1 + e.cols / width;
  const DotScratch s(vectors, width, scratch);
  for (int64_t i = 0; i < dot_scratch(vectors, width); ++i) scratch[i] = 0;
  for (int64_t r = r0; r < r1; ++r) {
    const T* from = row_of<T>(x, r);
    T* out = row_of<T>(z, r);
    load_vectors<T>(from, row_of<T>(e, r), vectors, width, s);
    transpose(s, vectors, width);
    for (int64_t c = 0; c < width; ++c) out[c] = from[c];
    out += width;
    if (s.columns <= 2 * kLanes) {
      const T* end = out + vectors * (vectors - 1) / 2;
      for (int64_t i = 0; i < vectors; i += kRowsTogether) {
        const int64_t rows = smaller(kRowsTogether, vectors - i);
        out = i + rows - 1 <= kLanes ? multiply_triangle<1>(s, width, i, rows, out, end)
                                     : multiply_triangle<2>(s, width, i, rows, out, end);
      }
      continue;
    }
    for (int64_t i = 0; i < vectors; i += kRowsTogether) {
      const int64_t rows = smaller(kRowsTogether, vectors - i);
      multiply_rows(s.v + i * s.width, s.width, s.square, s.columns, width, rounded_up(i + rows),
                    s.row, s.columns);
      for (int64_t k = 0; k < rows; ++k) {
        const float* products = s.row + k * s.columns;
        for_pieces(i + k, [&]<int N>(int64_t c) { store<N>(out + c, load<N>(products + c)); });
        out += i + k;
      }
    }
  }
}

/// s.square = the gradients of the products as a symmetric matrix with a zero diagonal. Loads whole
/// vectors unless that passes the end of `dz`. What this stores right of the diagonal is
/// overwritten.
template <class T>
inline void load_product_gradients(const T* dz, int64_t vectors, const DotScratch& s) {
  const T* end = dz + vectors * (vectors - 1) / 2;
  for (int64_t i = 0; i < vectors; ++i) {
    float* row = s.square + i * s.columns;
    for (int64_t c = 0; c < i; c += kLanes) {
      if (dz + c + kLanes <= end) {
        store<kLanes>(row + c, load<kLanes>(dz + c));
        continue;
      }
      for_pieces(i - c, [&]<int N>(int64_t k) { store<N>(row + c + k, load<N>(dz + c + k)); });
    }
    dz += i;
  }
  // Transposes the lower triangle into the upper one in 4 x 4 tiles. Then fills the tiles on the
  // diagonal.
  for (int64_t i = 4; i < vectors; i += 4) {
    for (int64_t j = 0; j < i; j += 4) {
      transpose4(s.square + i * s.columns + j, s.columns, s.square + j * s.columns + i, s.columns);
    }
  }
  for (int64_t i = 0; i < vectors; ++i) {
    float* row = s.square + i * s.columns;
    for (int64_t j = i / 4 * 4; j < i; ++j) s.square[j * s.columns + i] = row[j];
    row[i] = 0;
  }
}

template <class T>
void dot_backward_of(const Matrix& x, const Matrix& e, const Matrix& dz, const Matrix& dx,
                     const Matrix& de, int64_t r0, int64_t r1, float* scratch) {
  const int64_t width = x.cols;
  const int64_t vectors = 1 + e.cols / width;
  const DotScratch s(vectors, width, scratch);
  for (int64_t i = 0; i < dot_scratch(vectors, width); ++i) scratch[i] = 0;
  for (int64_t r = r0; r < r1; ++r) {
    const T* g = row_of<T>(dz, r);
    load_vectors<T>(row_of<T>(x, r), row_of<T>(e, r), vectors, width, s);
    load_product_gradients(g + width, vectors, s);
    for (int64_t i = 0; i < vectors; i += kRowsTogether) {
      const int64_t rows = smaller(kRowsTogether, vectors - i);
      multiply_rows(s.square + i * s.columns, s.columns, s.v, s.width, vectors, s.width, s.row,
                    s.width);
      for (int64_t k = 0; k < rows; ++k) {
        const float* sum = s.row + k * s.width;
        if (i + k == 0) {
          T* to = row_of<T>(dx, r);
          for_pieces(width, [&]<int N>(int64_t c) {
            store<N>(to + c, load<N>(sum + c) + load<N>(g + c));
          });
        } else {
          T* to = row_of<T>(de, r) + (i + k - 1) * width;
          for_pieces(width, [&]<int N>(int64_t c) { store<N>(to + c, load<N>(sum + c)); });
        }
      }
    }
  }
}

void dot_forward(const DotForward& o, int64_t r0, int64_t r1, float* scratch) {
  with_type(o.x.type, [&]<class T>(T) { dot_forward_of<T>(o.x, o.e, o.z, r0, r1, scratch); });
}

void dot_backward(const DotBackward& o, int64_t r0, int64_t r1, float* scratch) {
  with_type(o.x.type,
            [&]<class T>(T) { dot_backward_of<T>(o.x, o.e, o.dz, o.dx, o.de, r0, r1, scratch); });
}

}  // namespace
}  // namespace dlrm::cpu
