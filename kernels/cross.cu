// Cross layers: y = x0 ⊙ u + x, one fused multiply-add, bitwise equal to the CPU's.
// Backward of each layer: du = x0 ⊙ dy. Of all L layers: [dx, de] = dy_0 + Σ_l u_l ⊙ dy_{l+1}. This
// sum stays in registers, so x0's gradient is written once, and in the types of dx and de.
// Bytes per element of s bytes: 4·s forward (3·s in the first layer, whose x is x0), 3·s backward,
// and (2·L + 1)·s read and s (de in fp32: 4) written for all layers.
// Limit: the bandwidth of a copy.
#include "kernels/cross.h"
#include "kernels/rows.cuh"

namespace dlrm::kernels {
namespace {

template <class T, int N>
struct CrossForward {
  Rows<const T> x0, u, x;
  Rows<T> y;
  __device__ void operator()(int64_t r, int64_t c) const {
    const auto a = load_pack<N>(x0.row(r) + c), b = load_pack<N>(u.row(r) + c),
               old = load_pack<N>(x.row(r) + c);
    Pack<T, N> out;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      out.at[i] =
          from_float<T>(__fmaf_rn(to_float(a.at[i]), to_float(b.at[i]), to_float(old.at[i])));
    }
    store_pack(y.row(r) + c, out);
  }
};

template <class T, int N>
struct CrossBackward {
  Rows<const T> x0, dy;
  Rows<T> du;
  __device__ void operator()(int64_t r, int64_t c) const {
    const auto a = load_pack<N>(x0.row(r) + c), d = load_pack<N>(dy.row(r) + c);
    Pack<T, N> out;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      out.at[i] = from_float<T>(__fmul_rn(to_float(a.at[i]), to_float(d.at[i])));
    }
    store_pack(du.row(r) + c, out);
  }
};

/// Stores N sums. float: in packs of at most 16 bytes.
template <class T, int N>
__device__ __forceinline__ void store_sums(T* to, const float (&sums)[N]) {
  constexpr int kWidest = 16 / static_cast<int>(sizeof(T));
  constexpr int kPack = N < kWidest ? N : kWidest;
#pragma unroll
  for (int from = 0; from < N; from += kPack) {
    Pack<T, kPack> out;
#pragma unroll
    for (int i = 0; i < kPack; ++i) out.at[i] = from_float<T>(sums[from + i]);
    store_pack(to + from, out);
  }
}

/// Columns below `dense` go to dx if it has data, the others to de, of type E.
template <class T, class E, int N>
struct CrossInputSum {
  Rows<const T> u, dy, dz;
  Rows<T> dx;
  Rows<E> de;
  int64_t b, dense;
  int layers;

  __device__ __forceinline__ void add(float (&sums)[N], const T* gate, const T* gradient) const {
    const auto a = load_pack<N>(gate), d = load_pack<N>(gradient);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      sums[i] = __fmaf_rn(to_float(a.at[i]), to_float(d.at[i]), sums[i]);
    }
  }
  __device__ void operator()(int64_t r, int64_t c) const {
    if (c < dense && dx.data == nullptr) return;
    const auto first = load_pack<N>(dy.row(r) + c);
    float sums[N];
#pragma unroll
    for (int i = 0; i < N; ++i) sums[i] = to_float(first.at[i]);
#pragma unroll 4
    for (int l = 0; l < layers - 1; ++l) {
      add(sums, u.row(l * b + r) + c, dy.row((l + 1) * b + r) + c);
    }
    add(sums, u.row((layers - 1) * b + r) + c, dz.row(r) + c);
    if (c < dense) {
      store_sums(dx.row(r) + c, sums);
    } else {
      store_sums(de.row(r) + c - dense, sums);
    }
  }
};

/// Extents of dz's elements. Groups of `length` lie on one side of the boundary of dx and de.
Extents sum_extents(const CrossInputBackward& o, int length) {
  const auto aligned = [&](const Matrix& m) {
    return reinterpret_cast<uintptr_t>(m.data) % 16 == 0 &&
           m.stride * static_cast<int64_t>(size_of(m.type)) % 16 == 0;
  };
  const bool all = aligned(o.u) && aligned(o.dy) && aligned(o.dz) && aligned(o.de) &&
                   (!o.dx.data || aligned(o.dx)) && o.dz.cols % length == 0 &&
                   o.de.cols % length == 0;
  return {o.dz.rows, o.dz.cols, all ? length : 1};
}

}  // namespace

void cross_forward(const Matrix& x0, const Matrix& u, const Matrix& x, const Matrix& y,
                   cudaStream_t stream) {
  const Extents all = extents({y, x0, u, x});
  with_type(y.type, [&]<class T>() {
    with_length<16 / static_cast<int>(sizeof(T))>(all, [&]<int N>() {
      over_elements(all,
                    CrossForward<T, N>{rows_of<const T>(x0), rows_of<const T>(u),
                                       rows_of<const T>(x), rows_of<T>(y)},
                    stream);
    });
  });
}

void cross_backward(const Matrix& x0, const Matrix& dy, const Matrix& du, cudaStream_t stream) {
  const Extents all = extents({dy, x0, du});
  with_type(dy.type, [&]<class T>() {
    with_length<16 / static_cast<int>(sizeof(T))>(all, [&]<int N>() {
      over_elements(all,
                    CrossBackward<T, N>{rows_of<const T>(x0), rows_of<const T>(dy), rows_of<T>(du)},
                    stream);
    });
  });
}

void cross_input_backward(const CrossInputBackward& o, cudaStream_t stream) {
  if (o.dz.rows == 0) return;
  with_type(o.dz.type, [&]<class T>() {
    constexpr int kLength = 16 / static_cast<int>(sizeof(T));
    const Extents all = sum_extents(o, kLength);
    with_length<kLength>(all, [&]<int N>() {
      const auto sum = [&]<class E>() {
        const CrossInputSum<T, E, N> body{rows_of<const T>(o.u),  rows_of<const T>(o.dy),
                                          rows_of<const T>(o.dz), rows_of<T>(o.dx),
                                          rows_of<E>(o.de),       o.dz.rows,
                                          o.dz.cols - o.de.cols,  static_cast<int>(o.layers())};
        over_elements(all, body, stream);
      };
      o.de.type == o.dz.type ? sum.template operator()<T>() : sum.template operator()<float>();
    });
  });
}

}  // namespace dlrm::kernels
