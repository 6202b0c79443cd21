// out[i] = bf16(sum over ranks q of float(parts[q][i])), in rank order: bitwise equal to the host's
// allreduce over a bf16 wire.
// Bytes per element: 2 read for each rank and 2 written. Limit: the bandwidth of a copy.
#include <algorithm>

#include "kernels/bf16.cuh"
#include "kernels/launch.cuh"
#include "kernels/rank_sum.h"

namespace dlrm::kernels {
namespace {

constexpr int kBlock = 256;
constexpr int64_t kMostBlocks = 4096;

__global__ void add_in_rank_order(const uint16_t* parts, int ranks, int64_t count, uint16_t* out) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kBlock;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kBlock + threadIdx.x; i < count; i += step) {
    float sum = to_float(Bf16{parts[i]});
    for (int q = 1; q < ranks; ++q) sum = __fadd_rn(sum, to_float(Bf16{parts[q * count + i]}));
    out[i] = bf16_bits(sum);
  }
}

}  // namespace

void sum_of_ranks(const uint16_t* parts, int ranks, int64_t count, uint16_t* out,
                  cudaStream_t stream) {
  const int64_t blocks = std::min(blocks_for(count, kBlock), kMostBlocks);
  launch(add_in_rank_order, {blocks, kBlock}, stream, parts, ranks, count, out);
}

}  // namespace dlrm::kernels
