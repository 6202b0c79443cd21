#pragma once
// Layer normalisation. See vec.h for the rules.
#include "cpu/elementwise_body.h"

namespace dlrm::cpu {
namespace {

/// Σ over the columns of a row of body.operator()<N>(c), a vector of N columns from c on.
template <class Body>
inline float row_sum(int64_t cols, const Body& body) {
  Floats<kLanes> vectors{};
  float rest = 0;
  for_pieces(cols, [&]<int N>(int64_t c) {
    const Floats<N> x = body.template operator()<N>(c);
    if constexpr (N == kLanes) {
      vectors = vectors + x;
    } else {
      rest += lane_sum<N>(x);
    }
  });
  return lane_sum<kLanes>(vectors) + rest;
}

template <class T>
void layer_norm_rows_of(const NormRows& o, const Matrix& z, int64_t r0, int64_t r1) {
  const auto n = static_cast<float>(o.x.cols);
  for (int64_t r = r0; r < r1; ++r) {
    const T* x = row_of<T>(o.x, r);
    T* to = row_of<T>(z, r);
    const float mean =
        row_sum(o.x.cols, [&]<int N>(int64_t c) -> Floats<N> { return load<N>(x + c); }) / n;
    const float squares = row_sum(o.x.cols, [&]<int N>(int64_t c) -> Floats<N> {
      const Floats<N> off = load<N>(x + c) - broadcast<N>(mean);
      return off * off;
    });
    const float inverse = 1.0f / square_root<1>(squares / n + o.eps);
    o.means[r] = mean;
    o.inverse_spreads[r] = inverse;
    for_pieces(o.x.cols, [&]<int N>(int64_t c) {
      const Floats<N> unit = (load<N>(x + c) - broadcast<N>(mean)) * broadcast<N>(inverse);
      store<N>(to + c, multiply_add<N>(load<N>(o.scale + c), unit, load<N>(o.shift + c)));
    });
  }
}

void layer_norm_rows(const NormRows& o, const Matrix& z, int64_t r0, int64_t r1) {
  with_type(z.type, [&]<class T>(T) { layer_norm_rows_of<T>(o, z, r0, r1); });
}

/// (x - mean)/√(var + eps) of N columns.
template <int N, class T>
inline Floats<N> unit_of(const NormRows& o, const T* x, int64_t r) {
  return (load<N>(x) - broadcast<N>(o.means[r])) * broadcast<N>(o.inverse_spreads[r]);
}

template <class T>
void layer_norm_backward_rows_of(const NormRows& o, const Matrix& dz, int64_t r0, int64_t r1) {
  const auto n = static_cast<float>(o.x.cols);
  for (int64_t r = r0; r < r1; ++r) {
    const T* x = row_of<T>(o.x, r);
    T* d = row_of<T>(dz, r);
    const float mean_g = row_sum(o.x.cols,
                                 [&]<int N>(int64_t c) -> Floats<N> {
                                   return load<N>(o.scale + c) * load<N>(d + c);
                                 }) /
                         n;
    const float mean_product =
        row_sum(o.x.cols,
                [&]<int N>(int64_t c) -> Floats<N> {
                  return load<N>(o.scale + c) * load<N>(d + c) * unit_of<N>(o, x + c, r);
                }) /
        n;
    for_pieces(o.x.cols, [&]<int N>(int64_t c) {
      const Floats<N> g = load<N>(o.scale + c) * load<N>(d + c);
      const Floats<N> left =
          g - broadcast<N>(mean_g) - unit_of<N>(o, x + c, r) * broadcast<N>(mean_product);
      store<N>(d + c, left * broadcast<N>(o.inverse_spreads[r]));
    });
  }
}

void layer_norm_backward_rows(const NormRows& o, const Matrix& dz, int64_t r0, int64_t r1) {
  with_type(dz.type, [&]<class T>(T) { layer_norm_backward_rows_of<T>(o, dz, r0, r1); });
}

/// Sums of N columns. Sums rows in chunks, then adds the chunks' sums in order.
template <class T, int N>
inline void norm_columns(const NormRows& o, const Matrix& dz, int64_t c, float* dscale,
                         float* dshift) {
  constexpr int64_t kChunk = 256;
  Floats<N> scale_sum{}, shift_sum{};
  for (int64_t first = 0; first < dz.rows; first += kChunk) {
    const int64_t end = smaller(dz.rows, first + kChunk);
    Floats<N> of_scale{}, of_shift{};
    for (int64_t r = first; r < end; ++r) {
      const Floats<N> d = load<N>(row_of<T>(dz, r) + c);
      of_scale = of_scale + d * unit_of<N>(o, row_of<T>(o.x, r) + c, r);
      of_shift = of_shift + d;
    }
    scale_sum = scale_sum + of_scale;
    shift_sum = shift_sum + of_shift;
  }
  store<N>(dscale + c, scale_sum);
  store<N>(dshift + c, shift_sum);
}

void layer_norm_sums(const NormRows& o, const Matrix& dz, int64_t c0, int64_t c1, float* dscale,
                     float* dshift) {
  with_type(dz.type, [&]<class T>(T) {
    for_pieces(c1 - c0,
               [&]<int N>(int64_t c) { norm_columns<T, N>(o, dz, c0 + c, dscale, dshift); });
  });
}

}  // namespace
}  // namespace dlrm::cpu
