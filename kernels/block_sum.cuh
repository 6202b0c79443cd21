#pragma once
// Sums over the threads of a block.
#include "kernels/launch.cuh"

namespace dlrm::kernels {

/// Σ of `value` over a block of kThreads threads. Every thread calls it. The order of
/// additions is fixed.
template <int kThreads>
__device__ inline double block_sum(double value) {
  DLRM_SHARED(double, sums, kThreads);
  const unsigned i = threadIdx.x;
  __syncthreads();  // an earlier call has finished
  sums[i] = value;
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (i < half) sums[i] = __dadd_rn(sums[i], sums[i + half]);
  }
  return sums[0];  // written last by thread 0
}

}  // namespace dlrm::kernels
