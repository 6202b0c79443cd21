// Cross layers, bitwise equal to the CPU's. Forward, each layer: y = x0 ⊙ t + x0, one fused
// multiply-add. Backward, each layer but the first: du = x0 ⊙ dy. The pass of the first layer also
// computes the gradient of x0 but for the part through the layer's products, which add it:
// sum = dy_1 + Σ_l (t_l - t_{l-1}) ⊙ dy_{l+1}, in registers.
// Bytes per element of s bytes: 3·s a pass; the first layer's backward (2·L + 1)·s read and 2·s
// written. All passes of L layers: 8·L·s.
// Limit: the bandwidth of a copy.
#include "kernels/cross.h"
#include "kernels/rows.cuh"

namespace dlrm::kernels {
namespace {

template <class T, int N>
struct CrossForward {
  Rows<const T> x0, t;
  Rows<T> y;
  __device__ void operator()(int64_t r, int64_t c) const {
    const auto a = load_pack<N>(x0.row(r) + c), b = load_pack<N>(t.row(r) + c);
    Pack<T, N> out;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float x = to_float(a.at[i]);
      out.at[i] = from_float<T>(__fmaf_rn(x, to_float(b.at[i]), x));
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

template <class T, int N>
struct CrossInputSum {
  Rows<const T> x0, t, dy, dz;
  Rows<T> du, sum;
  int64_t b;
  int layers;

  /// The gradient of the output of layer l.
  __device__ __forceinline__ const T* above(int l, int64_t r) const {
    return l + 1 < layers ? dy.row(l * b + r) : dz.row(r);
  }
  __device__ void operator()(int64_t r, int64_t c) const {
    const auto a = load_pack<N>(x0.row(r) + c), first = load_pack<N>(above(0, r) + c);
    auto below = load_pack<N>(t.row(r) + c);
    Pack<T, N> product;
    float sums[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float d = to_float(first.at[i]);
      product.at[i] = from_float<T>(__fmul_rn(to_float(a.at[i]), d));
      sums[i] = __fmaf_rn(to_float(below.at[i]), d, d);
    }
    store_pack(du.row(r) + c, product);
#pragma unroll 2
    for (int l = 1; l < layers; ++l) {
      const auto here = load_pack<N>(t.row(l * b + r) + c), d = load_pack<N>(above(l, r) + c);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float u = __fadd_rn(to_float(here.at[i]), -to_float(below.at[i]));
        sums[i] = __fmaf_rn(u, to_float(d.at[i]), sums[i]);
      }
      below = here;
    }
    Pack<T, N> out;
#pragma unroll
    for (int i = 0; i < N; ++i) out.at[i] = from_float<T>(sums[i]);
    store_pack(sum.row(r) + c, out);
  }
};

}  // namespace

void cross_forward(const Matrix& x0, const Matrix& t, const Matrix& y, cudaStream_t stream) {
  const Extents all = extents({y, x0, t});
  with_type(y.type, [&]<class T>() {
    with_length<16 / static_cast<int>(sizeof(T))>(all, [&]<int N>() {
      over_elements(all,
                    CrossForward<T, N>{rows_of<const T>(x0), rows_of<const T>(t), rows_of<T>(y)},
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
  const auto layers = static_cast<int>(o.layers());
  const Extents all = extents({o.dz, o.x0, o.t, layers > 1 ? o.dy : o.dz, o.du, o.sum});
  with_type(o.dz.type, [&]<class T>() {
    with_length<16 / static_cast<int>(sizeof(T))>(all, [&]<int N>() {
      over_elements(all,
                    CrossInputSum<T, N>{rows_of<const T>(o.x0), rows_of<const T>(o.t),
                                        rows_of<const T>(o.dy), rows_of<const T>(o.dz),
                                        rows_of<T>(o.du), rows_of<T>(o.sum), o.dz.rows, layers},
                    stream);
    });
  });
}

}  // namespace dlrm::kernels
