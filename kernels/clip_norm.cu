// g ← g·min(1, max_norm/(‖g‖ + 1e-6)) with the L2 norm of all of g.
// The first launch sums squares per block, in fp64. The second adds these sums in a fixed order and
// computes the factor. The third scales g, or reads only the factor if that is 1. The factor stays
// on the device, so the host does not wait, and the launches can be recorded.
// Bytes per element: 4 if nothing is clipped, otherwise 12. Limit: the bandwidth of L2, where the
// gradients of an MLP are.
#include <algorithm>

#include "kernels/block_sum.cuh"
#include "kernels/clip_norm.h"
#include "kernels/rows.cuh"

namespace dlrm::kernels {
namespace {

constexpr int kThreads = 256;

/// sums[block] = Σ g². A block takes elements at a fixed stride.
__global__ void __launch_bounds__(kThreads)
    norm_sums_kernel(const float* g, int64_t count, double* sums) {
  double squares = 0;
  const int64_t apart = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += apart) {
    const double value = g[i];
    squares += value * value;
  }
  const double sum = block_sum<kThreads>(squares);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/// The factor, from the sums of `blocks` blocks. At most one block per thread.
__global__ void __launch_bounds__(kThreads)
    norm_factor_kernel(double* sums, int blocks, double max_norm) {
  const int at = static_cast<int>(threadIdx.x);
  const double norm = sqrt(block_sum<kThreads>(at < blocks ? sums[at] : 0.0));
  if (threadIdx.x != 0) return;
  const double factor = max_norm / (norm + 1e-6);
  // A norm of infinity or NaN clips nothing.
  sums[kNormBlocks] = norm < HUGE_VAL && factor < 1 ? factor : 1;
}
static_assert(kNormBlocks <= kThreads);

template <int N>
struct Scale {
  float* g;
  const double* sums;
  __device__ void operator()(int64_t, int64_t i) const {
    const auto factor = static_cast<float>(sums[kNormBlocks]);
    if (factor == 1) return;
    auto values = load_pack<N>(g + i);
#pragma unroll
    for (int k = 0; k < N; ++k) values.at[k] = __fmul_rn(values.at[k], factor);
    store_pack(g + i, values);
  }
};

}  // namespace

void clip_norm(float* g, int64_t count, double max_norm, double* sums, cudaStream_t stream) {
  const int64_t blocks = std::min(blocks_for(count, int64_t{kThreads} * 4), kNormBlocks);
  launch(norm_sums_kernel, {blocks, kThreads}, stream, g, count, sums);
  launch(norm_factor_kernel, {int64_t{1}, kThreads}, stream, sums, static_cast<int>(blocks),
         max_norm);
  const bool fours = count % 4 == 0 && reinterpret_cast<uintptr_t>(g) % 16 == 0;
  const Extents all{1, count, fours ? 4 : 1};
  with_length<4>(all, [&]<int N>() { over_elements(all, Scale<N>{g, sums}, stream); });
}

}  // namespace dlrm::kernels
