// out[i] = bf16(sum over ranks q of float(parts[q][i])), in rank order: bitwise equal to the host's
// allreduce over a bf16 wire.
// Bytes per element: 2 read for each rank and 2 written; 4 where values are fp32. Limit: the
// bandwidth of a copy.
#include "kernels/bf16.cuh"
#include "kernels/launch.cuh"
#include "kernels/rank_sum.h"

namespace dlrm::kernels {
namespace {

constexpr int kBlock = 256;

__device__ inline float load(float value) { return value; }
__device__ inline float load(uint16_t bits) { return to_float(Bf16{bits}); }
__device__ inline void store(float value, float* to) { *to = value; }
__device__ inline void store(float value, uint16_t* to) { *to = bf16_bits(value); }

template <class In, class Out>
__global__ void add_in_rank_order(const In* parts, int ranks, int64_t count, Out* out) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  if (i >= count) return;
  float sum = load(parts[i]);
  for (int q = 1; q < ranks; ++q) sum = __fadd_rn(sum, load(parts[q * count + i]));
  store(sum, out + i);
}

template <class In, class Out>
void add(const In* parts, int ranks, int64_t count, Out* out, cudaStream_t stream) {
  launch(add_in_rank_order<In, Out>, {blocks_for(count, kBlock), kBlock}, stream, parts, ranks,
         count, out);
}

}  // namespace

void sum_of_ranks(const uint16_t* parts, int ranks, int64_t count, uint16_t* out,
                  cudaStream_t stream) {
  add(parts, ranks, count, out, stream);
}
void sum_of_ranks(const uint16_t* parts, int ranks, int64_t count, float* out,
                  cudaStream_t stream) {
  add(parts, ranks, count, out, stream);
}
void sum_of_ranks(const float* parts, int ranks, int64_t count, uint16_t* out,
                  cudaStream_t stream) {
  add(parts, ranks, count, out, stream);
}

}  // namespace dlrm::kernels
