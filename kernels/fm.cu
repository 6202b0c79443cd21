// z = [x, e, fm], v = (x, e1..eF).
// fm = Σ_i v_i · (v_0 + .. + v_{i-1}). This has no cancellation, unlike the equal
// ½ Σ_d [(Σ_i v_id)² − Σ_i v_id²].
// Backward: dv_i = dz_i + g (S − v_i), S = Σ_i v_i, g the gradient of fm. The error of each
// addition to S is summed too, so S − v_i is exact to one rounding.
// Bytes per sample, s the size of an element: forward s·((2F+2)·D + 1), backward s·((3F+3)·D + 1).
// Backward reads x and e twice, the second time from a cache. There are a few operations per
// element. Limit: the bandwidth of a copy.
#include "kernels/fm.h"
#include "kernels/rows.cuh"
#include "kernels/warps.cuh"

namespace dlrm::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kAtOnce = 4;  // vectors that a lane loads before it uses the first

/// 2^shift lanes compute one sample. Each lane takes N neighbouring columns at a time.
struct FmShape {
  int64_t samples;
  int64_t width;    ///< D
  int64_t columns;  ///< F·D
  int shift;

  int64_t blocks() const { return blocks_for(samples, int64_t{kThreads >> shift}); }
};

__device__ inline int64_t sample_of(const Lanes& lanes) {
  const int64_t warp = static_cast<int64_t>(blockIdx.x) * (kThreads / 32) + warp_of();
  return warp * lanes.parts() + lanes.part;
}

/// Calls use(k, v) for each vector of e: v is its columns [k, k + N). For the first vector k = c.
/// at column c.
template <int N, class T, class Use>
__device__ void over_vectors(const T* e, int64_t c, const FmShape& shape, const Use& use) {
  for (int64_t first = c; first < shape.columns; first += kAtOnce * shape.width) {
    Pack<T, N> v[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int64_t k = first + i * shape.width;
      v[i] = load_pack<N>(e + (k < shape.columns ? k : first));
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int64_t k = first + i * shape.width;
      if (k < shape.columns) use(k, v[i]);
    }
  }
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    fm_forward_kernel(Rows<const T> x, Rows<const T> e, Rows<T> z, FmShape shape) {
  const Lanes lanes(shape.shift);
  const int64_t sample = sample_of(lanes);
  if (sample >= shape.samples) return;  // all lanes of the sample return
  T* out = z.row(sample);
  float fm = 0;
  for (int64_t c = lanes.index * N; c < shape.width; c += lanes.count * N) {
    const auto first = load_pack<N>(x.row(sample) + c);
    store_pack(out + c, first);
    float sum[N], products[N] = {};
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] = to_float(first.at[i]);
    over_vectors<N>(e.row(sample), c, shape, [&](int64_t k, const Pack<T, N>& v) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float value = to_float(v.at[i]);
        products[i] = __fmaf_rn(value, sum[i], products[i]);
        sum[i] = __fadd_rn(sum[i], value);
      }
      store_pack(out + shape.width + k, v);
    });
#pragma unroll
    for (int i = 0; i < N; ++i) fm = __fadd_rn(fm, products[i]);
  }
  fm = lanes.sum(fm);
  if (lanes.index == 0) out[shape.width + shape.columns] = from_float<T>(fm);
}

/// A sum of floats, and the accumulated rounding error.
struct ExactSum {
  float sum, error;

  __device__ void add(float v) {
    const float next = __fadd_rn(sum, v);
    const float added = __fsub_rn(next, sum);
    const float lost = __fadd_rn(__fsub_rn(sum, __fsub_rn(next, added)), __fsub_rn(v, added));
    error = __fadd_rn(error, lost);
    sum = next;
  }
  __device__ float without(float v) const { return __fadd_rn(__fsub_rn(sum, v), error); }
};

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    fm_backward_kernel(Rows<const T> x, Rows<const T> e, Rows<const T> dz, Rows<T> dx, Rows<T> de,
                       FmShape shape) {
  const Lanes lanes(shape.shift);
  const int64_t sample = sample_of(lanes);
  if (sample >= shape.samples) return;  // all lanes of the sample return
  const T* passed = dz.row(sample);
  const float g = to_float(passed[shape.width + shape.columns]);
  for (int64_t c = lanes.index * N; c < shape.width; c += lanes.count * N) {
    const auto first = load_pack<N>(x.row(sample) + c);
    ExactSum total[N];
#pragma unroll
    for (int i = 0; i < N; ++i) total[i] = {to_float(first.at[i]), 0};
    over_vectors<N>(e.row(sample), c, shape, [&](int64_t, const Pack<T, N>& v) {
#pragma unroll
      for (int i = 0; i < N; ++i) total[i].add(to_float(v.at[i]));
    });
    if (dx.data) {
      const auto d = load_pack<N>(passed + c);
      Pack<T, N> out;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float others = total[i].without(to_float(first.at[i]));
        out.at[i] = from_float<T>(__fmaf_rn(g, others, to_float(d.at[i])));
      }
      store_pack(dx.row(sample) + c, out);
    }
    over_vectors<N>(e.row(sample), c, shape, [&](int64_t k, const Pack<T, N>& v) {
      const auto d = load_pack<N>(passed + shape.width + k);
      Pack<T, N> out;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float others = total[i].without(to_float(v.at[i]));
        out.at[i] = from_float<T>(__fmaf_rn(g, others, to_float(d.at[i])));
      }
      store_pack(de.row(sample) + k, out);
    });
  }
}

/// Whether packs of `length` elements are aligned to their size in every row.
bool packs_fit(const Matrix& m, int length) {
  const size_t bytes = size_of(m.type) * static_cast<size_t>(length);
  return reinterpret_cast<uintptr_t>(m.data) % bytes == 0 && m.stride % length == 0;
}

/// Calls body.operator()<T, N>(shape) with N columns per pack.
template <class Body>
void with_packs(const Matrix& x, int64_t columns, std::initializer_list<Matrix> matrices,
                const Body& body) {
  constexpr int kLength = 4;
  bool fit = x.cols % kLength == 0;
  for (const Matrix& m : matrices) fit &= packs_fit(m, kLength);
  with_type(x.type, [&]<class T>() {
    const auto run = [&]<int N>() {
      body.template operator()<T, N>(FmShape{x.rows, x.cols, columns, lanes_shift(x.cols, N)});
    };
    fit ? run.template operator()<kLength>() : run.template operator()<1>();
  });
}

}  // namespace

void fm_forward(const Matrix& x, const Matrix& e, const Matrix& z, cudaStream_t stream) {
  with_packs(x, e.cols, {x, e, z}, [&]<class T, int N>(const FmShape& shape) {
    launch(fm_forward_kernel<T, N>, {shape.blocks(), kThreads}, stream, rows_of<const T>(x),
           rows_of<const T>(e), rows_of<T>(z), shape);
  });
}

void fm_backward(const Matrix& x, const Matrix& e, const Matrix& dz, const Matrix& dx,
                 const Matrix& de, cudaStream_t stream) {
  with_packs(x, e.cols, {x, e, dz, dx, de}, [&]<class T, int N>(const FmShape& shape) {
    launch(fm_backward_kernel<T, N>, {shape.blocks(), kThreads}, stream, rows_of<const T>(x),
           rows_of<const T>(e), rows_of<const T>(dz), rows_of<T>(dx), rows_of<T>(de), shape);
  });
}

}  // namespace dlrm::kernels
