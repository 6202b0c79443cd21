#pragma once
// Philox4x32-10, bitwise equal to core/random.h.
#include <cstdint>

#include <cuda_runtime.h>

namespace dlrm::kernels {

struct PhiloxWords {
  uint32_t word[4];
};

__device__ inline PhiloxWords philox(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2,
                                     uint32_t c3) {
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
#pragma unroll 1  // otherwise the keys of all rounds take registers
  for (int round = 0; round < 10; ++round) {
    const uint64_t p = uint64_t{0xD2511F53u} * c0;
    const uint64_t q = uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<uint32_t>(q >> 32) ^ c1 ^ k0;
    c2 = static_cast<uint32_t>(p >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(q);
    c3 = static_cast<uint32_t>(p);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// Maps to [0, 1) in steps of 2^-24, exactly.
__device__ inline float uniform01(uint32_t bits) {
  return __fmul_rn(static_cast<float>(bits >> 8), 0x1p-24f);
}

/// Maps to [-bound, bound). Each operation is rounded.
__device__ inline float uniform_in(uint32_t bits, float bound) {
  return __fmul_rn(__fadd_rn(__fmul_rn(uniform01(bits), 2.0f), -1.0f), bound);
}

/// The sum of the eight 16-bit halves, less its mean.
__device__ inline int32_t sum_of_halves(const PhiloxWords& drawn) {
  uint32_t sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) sum += (drawn.word[i] & 0xffff) + (drawn.word[i] >> 16);
  return static_cast<int32_t>(sum) - 4 * 0xffff;
}

}  // namespace dlrm::kernels
