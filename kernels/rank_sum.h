#pragma once
#include <cstdint>

#include <cuda_runtime.h>

namespace dlrm::kernels {

/// out[i] = bf16(parts[0][i] + parts[1][i] + ...), added in fp32 in that order. `parts` holds
/// `ranks` contiguous arrays of `count` bf16 values. `out` does not overlap `parts`.
void sum_of_ranks(const uint16_t* parts, int ranks, int64_t count, uint16_t* out,
                  cudaStream_t stream);
/// The same without rounding the sums.
void sum_of_ranks(const uint16_t* parts, int ranks, int64_t count, float* out, cudaStream_t stream);
/// The same of fp32 values.
void sum_of_ranks(const float* parts, int ranks, int64_t count, uint16_t* out, cudaStream_t stream);

}  // namespace dlrm::kernels
