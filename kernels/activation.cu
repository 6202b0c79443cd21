// y = f(p + bias), dy *= f'(z), element by element in fp32. With σ(x) = 1/(1 + exp(-x)):
// gelu(z) = z·σ(2u), u = √(2/π)·(z + 0.044715·z³); silu(z) = z·σ(z).
// A NaN stays NaN, in ReLU too.
// Bytes per element of s bytes: 2·s forward (3·s if z is kept), 3·s backward.
// Limit: the bandwidth of a copy.
#include <cmath>

#include "kernels/activation.h"
#include "kernels/rows.cuh"

namespace dlrm::kernels {
namespace {

constexpr float kTwoOverRootPi = 1.5957691216f;  // 2·√(2/π)
constexpr float kCubic = 0.044715f;
constexpr float kFlat = 10;  // for larger magnitudes gelu's slope rounds to 0 or 1

/// σ(x) and 1 - σ(x), both without cancellation.
struct Gate {
  float open, shut;
};
__device__ Gate gate_at(float x) {
  const float e = expf(-fabsf(x)), larger = 1.0f / (1.0f + e), smaller = e * larger;
  return x < 0 ? Gate{smaller, larger} : Gate{larger, smaller};
}

__device__ Gate gelu_gate(float z) { return gate_at(kTwoOverRootPi * (z + kCubic * z * z * z)); }

template <Activation kAct>
__device__ float value(float z) {
  if constexpr (kAct == Activation::kRelu) return z < 0 ? 0.0f : z;
  if constexpr (kAct == Activation::kGelu) return z * gelu_gate(z).open;
  if constexpr (kAct == Activation::kSilu) return z * gate_at(z).open;
  if constexpr (kAct == Activation::kSigmoid) return gate_at(z).open;
  if constexpr (kAct == Activation::kTanh) return tanhf(z);
  return z;
}

__device__ float gelu_slope(float z) {
  if (fabsf(z) > kFlat) return z > 0 ? 1.0f : 0.0f;
  const Gate gate = gelu_gate(z);
  return gate.open + z * gate.open * gate.shut * kTwoOverRootPi * (1 + 3 * kCubic * z * z);
}

__device__ float silu_slope(float z) {
  const Gate gate = gate_at(z);
  return gate.open * (1 + z * gate.shut);
}

/// Computes f' times dy, from z if the derivative needs it, otherwise from y.
template <Activation kAct>
__device__ float product_with_slope(float from, float dy) {
  if constexpr (kAct == Activation::kRelu) return from == 0 ? 0.0f : dy;
  if constexpr (kAct == Activation::kGelu) return dy * gelu_slope(from);
  if constexpr (kAct == Activation::kSilu) return dy * silu_slope(from);
  if constexpr (kAct == Activation::kSigmoid) return dy * (from * (1 - from));
  if constexpr (kAct == Activation::kTanh) return dy * ((1 - from) * (1 + from));
  return dy;
}

constexpr bool from_z(Activation curve) {
  return curve == Activation::kGelu || curve == Activation::kSilu;
}

template <Activation kAct, class T, int N>
struct Activate {
  Rows<const T> p;
  const float* bias;
  Rows<T> z, y;
  __device__ void operator()(int64_t r, int64_t c) const {
    const auto from = load_pack<N>(p.row(r) + c);
    Pack<float, N> added{};
    if (bias) added = load_pack<N>(bias + c);
    Pack<T, N> kept, to;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float sum = to_float(from.at[i]) + added.at[i];
      kept.at[i] = from_float<T>(sum);
      to.at[i] = from_float<T>(value<kAct>(sum));
    }
    if (z.data) store_pack(z.row(r) + c, kept);
    store_pack(y.row(r) + c, to);
  }
};

template <Activation kAct, class T, int N>
struct ActivateBackward {
  Rows<const T> from;
  Rows<T> dy;
  __device__ void operator()(int64_t r, int64_t c) const {
    const auto given = load_pack<N>(from.row(r) + c);
    auto to = load_pack<N>(dy.row(r) + c);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      to.at[i] = from_float<T>(product_with_slope<kAct>(to_float(given.at[i]), to_float(to.at[i])));
    }
    store_pack(dy.row(r) + c, to);
  }
};

template <class T, int N>
struct Clear {
  Rows<T> m;
  __device__ void operator()(int64_t r, int64_t c) const {
    Pack<T, N> zeros;
#pragma unroll
    for (int i = 0; i < N; ++i) zeros.at[i] = from_float<T>(0);
    store_pack(m.row(r) + c, zeros);
  }
};

template <class Body>
void with_curve(Activation curve, const Body& body) {
  switch (curve) {
    case Activation::kNone:
      return body.template operator()<Activation::kNone>();
    case Activation::kRelu:
      return body.template operator()<Activation::kRelu>();
    case Activation::kGelu:
      return body.template operator()<Activation::kGelu>();
    case Activation::kSilu:
      return body.template operator()<Activation::kSilu>();
    case Activation::kSigmoid:
      return body.template operator()<Activation::kSigmoid>();
    case Activation::kTanh:
      return body.template operator()<Activation::kTanh>();
  }
}

/// Calls body.operator()<T, N>() for the type and packs of `matrices`.
template <class Body>
void with_packs(const Extents& all, DType type, const Body& body) {
  with_type(type, [&]<class T>() {
    with_length<16 / static_cast<int>(sizeof(T))>(
        all, [&]<int N>() { body.template operator()<T, N>(); });
  });
}

/// Like extents(), but rows stay separate, because the column selects the bias.
Extents row_extents(std::initializer_list<Matrix> matrices) {
  const Matrix& first = *matrices.begin();
  Extents all = extents(matrices);
  if (all.rows == first.rows) return all;
  return {first.rows, first.cols, first.cols % all.length == 0 ? all.length : 1};
}

}  // namespace

void activate(Activation curve, const Matrix& p, const float* bias, const Matrix& z,
              const Matrix& y, cudaStream_t stream) {
  const Matrix& kept = z.data ? z : y;
  Extents all = bias ? row_extents({y, p, kept}) : extents({y, p, kept});
  const size_t bias_pack = sizeof(float) * static_cast<size_t>(all.length);
  if (reinterpret_cast<uintptr_t>(bias) % bias_pack != 0) all.length = 1;
  with_curve(curve, [&]<Activation kAct>() {
    with_packs(all, y.type, [&]<class T, int N>() {
      const Activate<kAct, T, N> body{rows_of<const T>(p), bias, rows_of<T>(z), rows_of<T>(y)};
      over_elements(all, body, stream);
    });
  });
}

void activate_backward(Activation curve, const Matrix& y, const Matrix& z, const Matrix& dy,
                       cudaStream_t stream) {
  const Matrix& from = from_z(curve) ? z : y;
  const Extents all = extents({dy, from});
  with_curve(curve, [&]<Activation kAct>() {
    with_packs(all, dy.type, [&]<class T, int N>() {
      const ActivateBackward<kAct, T, N> body{rows_of<const T>(from), rows_of<T>(dy)};
      over_elements(all, body, stream);
    });
  });
}

void clear(const Matrix& m, cudaStream_t stream) {
  const Extents all = extents({m});
  with_packs(all, m.type,
             [&]<class T, int N>() { over_elements(all, Clear<T, N>{rows_of<T>(m)}, stream); });
}

}  // namespace dlrm::kernels
