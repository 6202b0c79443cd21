#pragma once
// Matrix products in fp32. See vec.h for the rules of these files. A tile of c stays in registers
// while panels of a and b pass through it. Each element is summed in one order, whatever the tile
// and the part of the matrix that a thread has, so results do not depend on the number of threads.
#include "cpu/kernels.h"
#include "cpu/vec.h"

namespace dlrm::cpu {
namespace {

// 12 sums in registers leave 4 for a row of b and an element of a.
constexpr int kProductRows = 6;
constexpr int kProductVectors = 2;

// A panel of b, of kProductDepth x kPanel floats, stays in the first-level cache. Rows of a, of
// kRowsAtOnce x kProductDepth floats, stay in the second-level cache, and so does most of b.
constexpr int64_t kProductDepth = 256;
constexpr int64_t kPanel = kProductVectors * kLanes;
constexpr int64_t kRowsAtOnce = 144;
constexpr int64_t kColumnsAtOnce = 512;

int64_t product_scratch() { return (kRowsAtOnce + kColumnsAtOnce + kPanel) * kProductDepth; }

/// A part of the rows or of the depth.
struct Piece {
  int64_t begin, size;
};

/// Piece `part` of `parts` near-equal pieces of n.
inline Piece piece_of(int64_t n, int64_t part, int64_t parts) {
  const int64_t begin = n * part / parts;
  return {begin, n * (part + 1) / parts - begin};
}

/// A tile of c, and the strides of a: from row to row and along the depth.
struct ProductStep {
  const float* a;
  int64_t a_row, a_depth;
  const float* b;
  int64_t depth;
  float* c;
  int64_t stride, columns;
  bool first;  // of the steps along the depth, so that c holds nothing yet
};

/// R rows of V vectors. Not inline: in a larger function GCC lacks registers.
template <int R, int V>
[[gnu::noinline]] void multiply_step(const ProductStep& s) {
  Floats<kLanes> sum[R][V] = {};
  const float *a = s.a, *b = s.b;
  if (!s.first) {  // the sums so far are no longer in the first-level cache
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      __builtin_prefetch(s.c + r * s.stride, 1);
      __builtin_prefetch(s.c + r * s.stride + s.columns - 1, 1);
    }
  }
  for (int64_t p = 0; p < s.depth; ++p, a += s.a_depth, b += V * kLanes) {
    Floats<kLanes> right[V];
    for (int q = 0; q < V; ++q) right[q] = load<kLanes>(b + q * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Floats<kLanes> left = broadcast<kLanes>(a[r * s.a_row]);
      for (int q = 0; q < V; ++q) sum[r][q] = multiply_add<kLanes>(left, right[q], sum[r][q]);
    }
  }
  const int64_t left = s.columns - (V - 1) * kLanes;
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    for (int q = 0; q < V; ++q) {
      float* to = s.c + r * s.stride + q * kLanes;
      const int64_t lanes = q + 1 < V ? kLanes : left;
      Floats<kLanes> v = sum[r][q];
      if (!s.first) v = v + load_up_to(to, lanes);
      store_up_to(to, v, lanes);
    }
  }
}

template <int V>
inline void multiply_rows_step(int64_t rows, const ProductStep& s) {
  [&]<int... R>(std::integer_sequence<int, R...>) {
    using Step = void (*)(const ProductStep&);
    constexpr Step kSteps[] = {multiply_step<R + 1, V>...};
    kSteps[rows - 1](s);
  }
  (std::make_integer_sequence<int, kProductRows>());
}

/// The floats from row to row of a panel of which `columns` are left.
inline int64_t panel_width(int64_t columns) { return columns <= kLanes ? kLanes : kPanel; }

/// `depth` rows of b [depth, columns] to panels [depth, width], filled up with zeros. A few rows at
/// a time, because rows of a large matrix lie in pages of their own.
inline void pack_b(const float* b, int64_t stride, int64_t depth, int64_t columns, float* to) {
  constexpr int64_t kTogether = 8;
  for (int64_t p0 = 0; p0 < depth; p0 += kTogether) {
    const int64_t p1 = smaller(depth, p0 + kTogether);
    for (int64_t j = 0; j < columns; j += kPanel) {
      const int64_t width = panel_width(columns - j);
      float* panel = to + j * depth;
      for (int64_t p = p0; p < p1; ++p) {
        const float* from = b + p * stride + j;
        for (int64_t q = 0; q < width; q += kLanes) {
          const int64_t left = columns - j - q;
          store<kLanes>(panel + p * width + q, load_up_to(from + q, left));
        }
      }
    }
  }
}

/// R columns of `depth` rows of a to [depth, R].
template <int R>
inline void pack_columns(const float* a, int64_t stride, int64_t depth, float* to) {
  for (int64_t p = 0; p < depth; ++p, a += stride, to += R) {
    for (int r = 0; r < R; ++r) to[r] = a[r];
  }
}

inline void pack_columns(int64_t rows, const float* a, int64_t stride, int64_t depth, float* to) {
  [&]<int... R>(std::integer_sequence<int, R...>) {
    using Pack = void (*)(const float*, int64_t, int64_t, float*);
    constexpr Pack kPacks[] = {pack_columns<R + 1>...};
    kPacks[rows - 1](a, stride, depth, to);
  }
  (std::make_integer_sequence<int, kProductRows>());
}

/// Some rows of c by a packed piece of b, whose columns begin at those of `whole`.
inline void multiply_block(const Product& p, const ProductStep& whole, Piece rows, Piece depth,
                           int64_t columns, float* packed_a) {
  const int64_t m = rows.size;
  const int64_t tiles = (m + kProductRows - 1) / kProductRows;
  for (int64_t t = 0; p.transposed_a && t < tiles; ++t) {
    const Piece tile = piece_of(m, t, tiles);
    pack_columns(tile.size, p.a.data + depth.begin * p.a.stride + rows.begin + tile.begin,
                 p.a.stride, depth.size, packed_a + tile.begin * depth.size);
  }
  for (int64_t j = 0; j < columns; j += kPanel) {
    ProductStep step = whole;
    step.b = whole.b + j * depth.size;
    step.columns = smaller(kPanel, columns - j);
    const bool single = step.columns <= kLanes;
    for (int64_t t = 0; t < tiles; ++t) {
      const Piece tile = piece_of(m, t, tiles);
      const int64_t first = rows.begin + tile.begin;
      step.a = p.transposed_a ? packed_a + tile.begin * depth.size
                              : p.a.data + first * p.a.stride + depth.begin;
      step.a_row = p.transposed_a ? 1 : p.a.stride;
      step.a_depth = p.transposed_a ? tile.size : 1;
      step.c = whole.c + first * p.c.stride + j;
      single ? multiply_rows_step<1>(tile.size, step)
             : multiply_rows_step<kProductVectors>(tile.size, step);
    }
  }
}

void product(const Product& p, float* scratch) {
  const int64_t m = p.c.rows, n = p.c.cols, k = p.transposed_a ? p.a.rows : p.a.cols;
  float* packed_a = scratch;
  float* packed_b = scratch + kRowsAtOnce * kProductDepth;
  const int64_t blocks = (m + kRowsAtOnce - 1) / kRowsAtOnce;
  const int64_t steps = k > 0 ? (k + kProductDepth - 1) / kProductDepth : 1;
  for (int64_t j0 = 0; j0 < n; j0 += kColumnsAtOnce) {
    const int64_t columns = smaller(kColumnsAtOnce, n - j0);
    for (int64_t s = 0; s < steps; ++s) {
      const Piece depth = piece_of(k, s, steps);
      const float* b = p.b.data + depth.begin * p.b.stride + j0;
      pack_b(b, p.b.stride, depth.size, columns, packed_b);
      ProductStep whole{};
      whole.b = packed_b;
      whole.depth = depth.size;
      whole.c = p.c.data + j0;
      whole.stride = p.c.stride;
      whole.first = s == 0 && !p.sum;
      for (int64_t block = 0; block < blocks; ++block) {
        multiply_block(p, whole, piece_of(m, block, blocks), depth, columns, packed_a);
      }
    }
  }
}

}  // namespace
}  // namespace dlrm::cpu
