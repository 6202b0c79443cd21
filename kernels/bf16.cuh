#pragma once
// Element types of kernels, by their bits. Bitwise equal to the host's BFloat16 and Float16.
#include <cstdint>

#include <cuda_runtime.h>

namespace dlrm::kernels {

/// bfloat16 as stored: the upper half of a float.
struct Bf16 {
  uint16_t bits;
};

/// IEEE half precision as stored.
struct Fp16 {
  uint16_t bits;
};

/// Rounds to nearest, ties to even. NaN stays NaN.
__device__ inline uint16_t bf16_bits(float value) {
  const uint32_t u = __float_as_uint(value);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const uint32_t quiet = (u >> 16) | 0x40u;
  return static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

/// Rounds to nearest, ties to even. Overflow gives infinity.
__device__ inline uint16_t fp16_bits(float value) {
  const uint32_t u = __float_as_uint(value);
  const uint32_t sign = (u >> 16) & 0x8000u;
  const uint32_t magnitude = u & 0x7fffffffu;
  uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u;
  } else if (magnitude >= 0x477ff000u) {  // rounds to 65536 or more
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: subnormal, one unit is 2^-24
    // Adding 0.5 aligns the subnormal half's unit with the float's last bit, rounded to even.
    half = __float_as_uint(__fadd_rn(__uint_as_float(magnitude), 0.5f)) - 0x3f000000u;
  } else {
    half = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return static_cast<uint16_t>(sign | half);
}

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(Bf16 x) {
  return __uint_as_float(static_cast<uint32_t>(x.bits) << 16);
}
__device__ inline float to_float(Fp16 x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16;
  const uint32_t exponent = (x.bits >> 10) & 0x1fu;
  const uint32_t mantissa = x.bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = __fmul_rn(static_cast<float>(mantissa), 0x1p-24f);
    return __uint_as_float(__float_as_uint(magnitude) | sign);
  }
  if (exponent == 31) return __uint_as_float(sign | 0x7f800000u | (mantissa << 13));
  return __uint_as_float(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

/// `value` rounded once to T.
template <class T>
__device__ inline T from_float(float value);
template <>
__device__ inline float from_float<float>(float value) {
  return value;
}
template <>
__device__ inline Bf16 from_float<Bf16>(float value) {
  return {bf16_bits(value)};
}
template <>
__device__ inline Fp16 from_float<Fp16>(float value) {
  return {fp16_bits(value)};
}

/// Packs two elements into a register, the first in the low half.
__device__ inline uint32_t pack_bits(uint16_t low, uint16_t high) {
  return static_cast<uint32_t>(low) | static_cast<uint32_t>(high) << 16;
}

/// Packs two bf16 operands of a product, rounded in one instruction if the GPU has it. A NaN stays
/// a NaN, but its payload is not kept.
__device__ inline uint32_t pack_bf16(float low, float high) {
#if defined(__CUDA_ARCH__)
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
#else
  return pack_bits(bf16_bits(low), bf16_bits(high));
#endif
}

/// A pair of floats as a sum of N pairs of bf16. Each part rounds the remainder of the previous
/// parts. A part holds 8 of a float's 24 bits, so three parts hold all.
template <int N>
struct SplitPair {
  uint32_t part[N];
};
template <int N>
__device__ __forceinline__ SplitPair<N> split_pair(float a, float b) {
  SplitPair<N> split;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    split.part[i] = pack_bf16(a, b);
    a = __fsub_rn(a, __uint_as_float(split.part[i] << 16));
    b = __fsub_rn(b, __uint_as_float(split.part[i] & 0xffff0000u));
  }
  return split;
}

}  // namespace dlrm::kernels
