#pragma once
// A Quad is four neighbouring columns of a row, the unit of a lane in the sparse updates. A lane
// has the same columns for any alignment, so that sums over a row have one order.
#include <cstdint>

#include "kernels/bf16.cuh"

namespace dlrm::kernels {

struct Quad {
  float at[4];
};

__device__ inline Quad quad_of(float x) { return {{x, x, x, x}}; }

/// Loads the existing columns of p, zeros for the others. If `aligned`, p may be read in one
/// access.
__device__ inline Quad load_quad(const float* p, int left, bool aligned) {
  if (aligned && left >= 4) {
    const float4 v = *reinterpret_cast<const float4*>(p);
    return {{v.x, v.y, v.z, v.w}};
  }
  Quad q = quad_of(0);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < left) q.at[i] = p[i];
  }
  return q;
}

/// Four columns of a row of floats (of bf16 if `bf16`), as stored. Converting them later lets other
/// loads start first.
struct RawQuad {
  uint32_t word[4];
};

__device__ inline RawQuad load_raw(const void* row, int c, int left, bool bf16, bool aligned) {
  RawQuad raw{};
  if (!bf16) {
    const Quad q = load_quad(static_cast<const float*>(row) + c, left, aligned);
#pragma unroll
    for (int i = 0; i < 4; ++i) raw.word[i] = __float_as_uint(q.at[i]);
    return raw;
  }
  const Bf16* p = static_cast<const Bf16*>(row) + c;
  if (aligned && left >= 4) {
    const uint2 v = *reinterpret_cast<const uint2*>(p);
    raw.word[0] = v.x;
    raw.word[1] = v.y;
    return raw;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < left) raw.word[i / 2] |= static_cast<uint32_t>(p[i].bits) << (16 * (i % 2));
  }
  return raw;
}

__device__ inline Quad values_of(const RawQuad& raw, bool bf16) {
  Quad q;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t pair = raw.word[i / 2];
    const uint32_t upper = i % 2 == 0 ? pair << 16 : pair & 0xffff0000u;
    q.at[i] = __uint_as_float(bf16 ? upper : raw.word[i]);
  }
  return q;
}

__device__ inline void store_quad(float* p, const Quad& q, int left, bool aligned) {
  if (aligned && left >= 4) {
    *reinterpret_cast<float4*>(p) = make_float4(q.at[0], q.at[1], q.at[2], q.at[3]);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < left) p[i] = q.at[i];
  }
}

__device__ inline void store_quad(Bf16* p, const Bf16 (&q)[4], int left, bool aligned) {
  if (aligned && left >= 4) {
    *reinterpret_cast<uint2*>(p) =
        make_uint2(pack_bits(q[0].bits, q[1].bits), pack_bits(q[2].bits, q[3].bits));
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < left) p[i] = q[i];
  }
}

/// total + scale·part, column by column.
__device__ inline void add_scaled(Quad& total, const Quad& part, float scale) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    total.at[i] = __fadd_rn(total.at[i], __fmul_rn(part.at[i], scale));
  }
}

/// sum + the squares, in column order.
__device__ inline float add_squares(float sum, const Quad& q) {
#pragma unroll
  for (int i = 0; i < 4; ++i) sum = __fadd_rn(sum, __fmul_rn(q.at[i], q.at[i]));
  return sum;
}

}  // namespace dlrm::kernels
