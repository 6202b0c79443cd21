#pragma once
// The clipping of gradients by their norm. See Ops::clip_norm.
#include <cstdint>

#include <cuda_runtime.h>

namespace dlrm::kernels {

/// A sum of squares per block, and the factor computed from them.
constexpr int64_t kNormBlocks = 256;
constexpr int64_t kNormSums = kNormBlocks + 1;

/// g [count] ← g·min(1, max_norm/(‖g‖ + 1e-6)), in three launches. sums: [kNormSums].
void clip_norm(float* g, int64_t count, double max_norm, double* sums, cudaStream_t stream);

}  // namespace dlrm::kernels
