#pragma once
#include <cstdint>
#include <cstring>

#include "dlrm/data/synthetic_draws.h"

// Included by one source file per instruction set. Everything is in an unnamed namespace and calls
// no library template, so that no function compiled for one set is linked into another. Loops run
// over kLanes independent lanes, so that the compiler vectorises them. Nothing is fused or
// reordered, so every set gives the same bits.

namespace dlrm {

/// Draws the `counters` 4-word blocks from counter `first` on: two ids or four floats per counter.
struct DrawKernels {
  void (*ids)(const PowerLaw& law, uint64_t key, uint32_t stream, uint64_t first, int64_t* out);
  void (*uniform)(uint64_t key, uint32_t stream, uint64_t first, float scale, float* out);
};

/// Counters that a kernel call covers.
constexpr int64_t kDrawLanes = 64;

const DrawKernels& draw_kernels_avx2();
const DrawKernels& draw_kernels_avx512();

namespace {

constexpr int kLanes = static_cast<int>(kDrawLanes);

struct Words {
  uint32_t w[4][kLanes];
};

/// Philox4x32-10 of counters {first + lane, stream, tag}.
inline void philox_lanes(uint64_t key, uint64_t first, uint32_t stream, uint32_t tag, Words& x) {
  for (int i = 0; i < kLanes; ++i) {
    const uint64_t counter = first + static_cast<uint64_t>(i);
    x.w[0][i] = static_cast<uint32_t>(counter);
    x.w[1][i] = static_cast<uint32_t>(counter >> 32);
    x.w[2][i] = stream;
    x.w[3][i] = tag;
  }
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kLanes; ++i) {
      const uint64_t a = uint64_t{0xD2511F53u} * x.w[0][i];
      const uint64_t b = uint64_t{0xCD9E8D57u} * x.w[2][i];
      const uint32_t next0 = static_cast<uint32_t>(b >> 32) ^ x.w[1][i] ^ k0;
      const uint32_t next2 = static_cast<uint32_t>(a >> 32) ^ x.w[3][i] ^ k1;
      x.w[1][i] = static_cast<uint32_t>(b);
      x.w[3][i] = static_cast<uint32_t>(a);
      x.w[0][i] = next0;
      x.w[2][i] = next2;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

inline double from_bits(uint64_t bits) { return __builtin_bit_cast(double, bits); }
inline uint64_t to_bits(double value) { return __builtin_bit_cast(uint64_t, value); }

// Adding it to a number of magnitude below 2^51 leaves the rounded integer in the low bits of the
// sum.
constexpr double kMagic = 0x1.8p52;
constexpr uint64_t kMagicBits = 0x4338000000000000ull;

/// ln x for normal x > 0, to about 1e-16 absolute near 1: ln m = 2 atanh((m - 1)/(m + 1)).
inline double natural_log(double x) {
  const uint64_t bits = to_bits(x);
  // Splits at √2 instead of a power of two, so that m lies in [√½, √2).
  const uint64_t shifted = bits - 0x3fe6a09e667f3bcdull;
  const uint64_t exponent = (shifted >> 52) | ((shifted >> 63) ? ~uint64_t{0} << 12 : 0);
  const double m = from_bits(bits - (exponent << 52));
  const double e = from_bits(kMagicBits + exponent) - kMagic;
  const double f = (m - 1.0) / (m + 1.0);
  const double s = f * f;
  double p = 2.0 / 21;
  p = p * s + 2.0 / 19;
  p = p * s + 2.0 / 17;
  p = p * s + 2.0 / 15;
  p = p * s + 2.0 / 13;
  p = p * s + 2.0 / 11;
  p = p * s + 2.0 / 9;
  p = p * s + 2.0 / 7;
  p = p * s + 2.0 / 5;
  p = p * s + 2.0 / 3;
  return e * 0x1.62e42fefa39efp-1 + (2.0 * f + f * s * p);
}

/// e^y for y < 700: 2^n times the Taylor sum of the remainder.
inline double exponential(double y) {
  const double n = (y * 0x1.71547652b82fep+0 + kMagic) - kMagic;
  const double r = (y - n * 0x1.62e42fefa3800p-1) - n * 0x1.ef35793c76730p-45;
  double p = 1.0 / 6227020800;
  p = p * r + 1.0 / 479001600;
  p = p * r + 1.0 / 39916800;
  p = p * r + 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  return from_bits(to_bits(p) + (to_bits(n + kMagic) << 52));
}

/// ⌊v⌋ for 0 <= v < 2^51.
inline int64_t floor_of(double v) {
  const double near = (v + kMagic) - kMagic;
  const double down = near > v ? near - 1.0 : near;
  return static_cast<int64_t>(to_bits(down + kMagic) - kMagicBits);
}

/// [0, 1) in steps of 2^-52.
inline double unit_interval(uint32_t low, uint32_t high) {
  const uint64_t bits = (static_cast<uint64_t>(high) << 32) | low;
  return from_bits((bits >> 12) | 0x3ff0000000000000ull) - 1.0;
}

inline int64_t clamp_id(int64_t id, int64_t rows) {
  id = id < 0 ? 0 : id;
  return id < rows ? id : rows - 1;
}

void ids_kernel(const PowerLaw& law, uint64_t key, uint32_t stream, uint64_t first, int64_t* out) {
  Words x;
  philox_lanes(key, first, stream, 4, x);
  double r[2 * kLanes];
  for (int i = 0; i < kLanes; ++i) {
    r[2 * i] = unit_interval(x.w[0][i], x.w[1][i]);
    r[2 * i + 1] = unit_interval(x.w[2][i], x.w[3][i]);
  }
  const int64_t rows = law.rows;
  const double span = law.span, inverse = law.inverse;
  if (inverse == 1.0) {
    for (int i = 0; i < 2 * kLanes; ++i) out[i] = clamp_id(floor_of(r[i] * span), rows);
    return;
  }
  if (inverse == 0.0) {
    for (int i = 0; i < 2 * kLanes; ++i) {
      out[i] = clamp_id(floor_of(exponential(r[i] * span)) - 1, rows);
    }
    return;
  }
  for (int i = 0; i < 2 * kLanes; ++i) {
    const double power = exponential(natural_log(r[i] * span + 1.0) * inverse);
    out[i] = clamp_id(floor_of(power) - 1, rows);
  }
}

void uniform_kernel(uint64_t key, uint32_t stream, uint64_t first, float scale, float* out) {
  Words x;
  philox_lanes(key, first, stream, 5, x);
  for (int i = 0; i < kLanes; ++i) {
    for (int w = 0; w < 4; ++w) {
      out[4 * i + w] = static_cast<float>(static_cast<int32_t>(x.w[w][i] >> 8)) * 0x1p-24f * scale;
    }
  }
}

constexpr DrawKernels kKernels{ids_kernel, uniform_kernel};

}  // namespace
}  // namespace dlrm
