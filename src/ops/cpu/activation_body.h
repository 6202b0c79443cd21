#pragma once
// Smooth activations. See vec.h for the rules of these files. All are computed from e^x for x <= 0,
// to about two units in the last place.
#include "cpu/elementwise_body.h"
#include "cpu/kernels.h"
#include "cpu/vec.h"

namespace dlrm::cpu {
namespace {

/// e^x = power · (1 + rest).
template <int N>
struct Exponential {
  Floats<N> power, rest;
};

/// For x <= 0 or NaN. 0 below -87, where e^x < 2^-125. x = n·ln 2 + r with an integer n and
/// |r| <= ln 2 / 2. `rest` is the series of e^r - 1, truncated below half a unit.
template <int N>
inline Exponential<N> exponential(Floats<N> x) {
  const auto all = [](float v) { return broadcast<N>(v); };
  const auto next = [&](Floats<N> sum, Floats<N> r, float c) {
    return multiply_add<N>(sum, r, all(c));
  };
  const auto nothing = x < -87.0f;
  x = nothing ? all(-87.0f) : x;
  constexpr float kWhole = 0x1.8p23f;  // adding it to a float removes the fraction bits
  const Floats<N> shifted = x * all(0x1.715476p0f) + all(kWhole);  // log2(e)
  const Floats<N> n = shifted - all(kWhole);
  Floats<N> r = multiply_add<N>(n, all(-0x1.63p-1f), x);  // ln 2 in two parts, the first one exact
  r = multiply_add<N>(n, all(0x1.bd0106p-13f), r);
  Floats<N> sum = all(1.0f / 5040);
  for (const float c : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f}) sum = next(sum, r, c);
  const auto exponent = (bits_as<Words<N>>(shifted) + (127u - 0x4b400000u)) << 23;
  const Floats<N> power = bits_as<Floats<N>>(exponent);
  return {nothing ? Floats<N>{} : power, multiply_add<N>(sum * r, r, r)};
}

template <int N>
inline Floats<N> magnitude(Floats<N> x) {
  return bits_as<Floats<N>>(bits_as<Words<N>>(x) & 0x7fffffffu);
}

/// σ(z) and 1 - σ(z), both without subtraction.
template <int N>
struct Logistic {
  Floats<N> value, rest;
};
template <int N>
inline Logistic<N> logistic(Floats<N> z) {
  const Exponential<N> e = exponential<N>(-magnitude<N>(z));
  const Floats<N> small = multiply_add<N>(e.power, e.rest, e.power);
  const Floats<N> near = 1.0f / (1.0f + small), far = small * near;
  return {z < 0.0f ? far : near, z < 0.0f ? near : far};
}

/// tanh by e^x - 1, x = -2|z|: -(e^x - 1) / (2 + (e^x - 1)).
template <int N>
inline Floats<N> hyperbolic_tangent(Floats<N> z) {
  const Floats<N> size = magnitude<N>(z);
  const Exponential<N> e = exponential<N>(size * broadcast<N>(-2.0f));
  const Floats<N> less = multiply_add<N>(e.power, e.rest, e.power - 1.0f);
  const Floats<N> value = magnitude<N>(less / (2.0f + less));
  return bits_as<Floats<N>>(bits_as<Words<N>>(value) | (bits_as<Words<N>>(z) & 0x80000000u));
}

constexpr float kGeluTwice = 1.5957691216f;  // 2·√(2/π)
constexpr float kGeluCubic = 0.044715f;

/// gelu(z) = z·σ(2·√(2/π)·(z + 0.044715 z³)).
template <int N>
inline Logistic<N> gelu_logistic(Floats<N> z) {
  const Floats<N> cubic = multiply_add<N>(z * z, broadcast<N>(kGeluCubic), broadcast<N>(1.0f));
  return logistic<N>(z * cubic * broadcast<N>(kGeluTwice));
}

template <Activation A, int N>
inline Floats<N> activated(Floats<N> z) {
  if constexpr (A == Activation::kGelu) return z * gelu_logistic<N>(z).value;
  if constexpr (A == Activation::kSilu) return z * logistic<N>(z).value;
  if constexpr (A == Activation::kSigmoid) return logistic<N>(z).value;
  if constexpr (A == Activation::kTanh) return hyperbolic_tangent<N>(z);
}

/// act'(z), from z if needs_input(act), otherwise from act(z).
template <Activation A, int N>
inline Floats<N> slope(Floats<N> from) {
  if constexpr (A == Activation::kGelu) {
    constexpr float kFar = 64;  // for larger values the slope is 0 or 1, and squares might overflow
    Floats<N> z = from > kFar ? broadcast<N>(kFar) : from;
    z = z < -kFar ? broadcast<N>(-kFar) : z;
    const Logistic<N> s = gelu_logistic<N>(z);
    const Floats<N> inner =
        multiply_add<N>(z * z, broadcast<N>(3 * kGeluCubic), broadcast<N>(1.0f)) *
        broadcast<N>(kGeluTwice);
    return multiply_add<N>(z * s.value * s.rest, inner, s.value);
  }
  if constexpr (A == Activation::kSilu) {
    const Logistic<N> s = logistic<N>(from);
    return s.value * multiply_add<N>(from, s.rest, broadcast<N>(1.0f));
  }
  if constexpr (A == Activation::kSigmoid) return from * (1.0f - from);
  if constexpr (A == Activation::kTanh) return (1.0f - from) * (1.0f + from);
}

/// Calls body.template operator()<A>() with the smooth activation as a constant.
template <class Body>
inline void with_smooth(Activation act, const Body& body) {
  switch (act) {
    case Activation::kGelu:
      return body.template operator()<Activation::kGelu>();
    case Activation::kSilu:
      return body.template operator()<Activation::kSilu>();
    case Activation::kSigmoid:
      return body.template operator()<Activation::kSigmoid>();
    case Activation::kTanh:
      return body.template operator()<Activation::kTanh>();
    case Activation::kNone:
    case Activation::kRelu:
      return;
  }
}

void activate(Activation act, const Matrix& z, const Matrix& y, int64_t r0, int64_t r1) {
  with_type(y.type, [&]<class T>(T) {
    with_smooth(act, [&]<Activation A>() {
      for (int64_t r = r0; r < r1; ++r) {
        const T* from = row_of<T>(z, r);
        T* to = row_of<T>(y, r);
        for_pieces(y.cols,
                   [&]<int N>(int64_t c) { store<N>(to + c, activated<A, N>(load<N>(from + c))); });
      }
    });
  });
}

void activate_backward(Activation act, const Matrix& from, const Matrix& dy, int64_t r0,
                       int64_t r1) {
  with_type(dy.type, [&]<class T>(T) {
    with_smooth(act, [&]<Activation A>() {
      for (int64_t r = r0; r < r1; ++r) {
        const T* given = row_of<T>(from, r);
        T* to = row_of<T>(dy, r);
        for_pieces(dy.cols, [&]<int N>(int64_t c) {
          store<N>(to + c, load<N>(to + c) * slope<A, N>(load<N>(given + c)));
        });
      }
    });
  });
}

}  // namespace
}  // namespace dlrm::cpu
