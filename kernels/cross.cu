// Cross layer: y = x0 ⊙ u + x, one fused multiply-add, bitwise equal to the CPU's.
// Backward: du = x0 ⊙ dy, dx0 += u ⊙ dy.
// Bytes per element of s bytes: 4·s forward, 6·s backward (5·s without accumulation).
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

/// kAccumulate: adds to dx0. Otherwise dx0 is overwritten.
template <class T, int N, bool kAccumulate>
struct CrossBackward {
  Rows<const T> x0, u, dy;
  Rows<T> du, dx0;
  __device__ void operator()(int64_t r, int64_t c) const {
    const auto a = load_pack<N>(x0.row(r) + c), b = load_pack<N>(u.row(r) + c),
               d = load_pack<N>(dy.row(r) + c);
    Pack<T, N> out, sum{};
    if (kAccumulate) sum = load_pack<N>(dx0.row(r) + c);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float g = to_float(d.at[i]);
      sum.at[i] = from_float<T>(__fmaf_rn(to_float(b.at[i]), g, to_float(sum.at[i])));
      out.at[i] = from_float<T>(__fmul_rn(to_float(a.at[i]), g));
    }
    store_pack(dx0.row(r) + c, sum);
    store_pack(du.row(r) + c, out);
  }
};

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

void cross_backward(const Matrix& x0, const Matrix& u, const Matrix& dy, const Matrix& du,
                    const Matrix& dx0, bool accumulate_dx0, cudaStream_t stream) {
  const Extents all = extents({dy, x0, u, du, dx0});
  with_type(dy.type, [&]<class T>() {
    with_length<16 / static_cast<int>(sizeof(T))>(all, [&]<int N>() {
      const auto run = [&]<bool kAccumulate>() {
        const CrossBackward<T, N, kAccumulate> body{rows_of<const T>(x0), rows_of<const T>(u),
                                                    rows_of<const T>(dy), rows_of<T>(du),
                                                    rows_of<T>(dx0)};
        over_elements(all, body, stream);
      };
      accumulate_dx0 ? run.template operator()<true>() : run.template operator()<false>();
    });
  });
}

}  // namespace dlrm::kernels
