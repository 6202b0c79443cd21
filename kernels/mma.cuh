#pragma once
// D = A B + D on the tensor cores: A [16, 16] and B [16, 8] in bf16, D [16, 8] in fp32, spread over
// a warp. Lane 4g + t holds
//   a[0] = A[g, 2t..2t+1]      b[0] = B[2t..2t+1, g]     d[0..1] = D[g, 2t..2t+1]
//   a[1] = A[g+8, 2t..2t+1]    b[1] = B[2t+8..2t+9, g]   d[2..3] = D[g+8, 2t..2t+1]
//   a[2] = A[g, 2t+8..2t+9]
//   a[3] = A[g+8, 2t+8..2t+9]
// A register holds two elements, the first in the low half. The 16 products of an element are
// summed in the tensor core's own order.
#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/bf16.cuh"
#include "kernels/launch.cuh"

namespace dlrm::kernels {

#if !defined(DLRM_SIMT)

__device__ __forceinline__ void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1) {
#if defined(__CUDA_ARCH__)
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

#else

/// The emulator: every lane shares its registers with the warp, then sums its four elements.
inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  struct Registers {
    uint32_t a[4];
    uint32_t b[2];
  };
  DLRM_SHARED(Registers, shown, 1024);
  const int lane = static_cast<int>(threadIdx.x % 32);
  Registers* warp = shown + (threadIdx.x - threadIdx.x % 32);
  warp[lane] = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
  __syncwarp();
  const int g = lane / 4, t = lane % 4;
  const auto element = [](uint32_t pair, int half) {
    return __uint_as_float(half == 0 ? pair << 16 : pair & 0xffff0000u);
  };
  for (int i = 0; i < 4; ++i) {
    const int column = 2 * t + i % 2;
    for (int k = 0; k < 16; ++k) {
      const int from = k % 8 / 2, upper = k / 8;
      const uint32_t left = warp[4 * g + from].a[2 * upper + i / 2];
      const uint32_t right = warp[4 * column + from].b[upper];
      d[i] = __fmaf_rn(element(left, k % 2), element(right, k % 2), d[i]);
    }
  }
  __syncwarp();
}

#endif

}  // namespace dlrm::kernels
