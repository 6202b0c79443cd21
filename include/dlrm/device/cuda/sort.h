#pragma once
#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

namespace dlrm::cuda {

/// Sorts and scans of device memory: CUB on a GPU, host code in the emulator. All of them are
/// queued on the stream, neither allocate nor wait, may be captured into a graph, and give the same
/// bits every time. `count` is known to the host (a capacity: pad with what sorts last); 0 does
/// nothing. Outputs must not overlap inputs. `scratch` is device memory of at least the bytes that
/// the function of the same name answers, aligned to 256; it may be used again by what is queued
/// after.

/// Bytes of scratch for sort_pairs of up to `count` pairs.
size_t sort_pairs_scratch(int64_t count, size_t key_bytes);
/// Sorts pairs by bits [begin_bit, end_bit) of their keys, ascending; pairs of equal bits keep
/// their order. Reads and writes (key + value) bytes once for every 8 bits: memory-bound.
void sort_pairs(const uint32_t* keys, uint32_t* sorted_keys, const uint32_t* values,
                uint32_t* sorted_values, int64_t count, int begin_bit, int end_bit, void* scratch,
                size_t scratch_bytes, cudaStream_t stream);
void sort_pairs(const uint64_t* keys, uint64_t* sorted_keys, const uint32_t* values,
                uint32_t* sorted_values, int64_t count, int begin_bit, int end_bit, void* scratch,
                size_t scratch_bytes, cudaStream_t stream);

/// Bytes of scratch for exclusive_sum and inclusive_sum of up to `count` elements of any type
/// below; fewer than 2^31.
size_t sum_scratch(int64_t count);
/// sums[i] = values[0] + ... + values[i - 1]. sums may be values.
void exclusive_sum(const uint32_t* values, uint32_t* sums, int64_t count, void* scratch,
                   size_t scratch_bytes, cudaStream_t stream);
void exclusive_sum(const int64_t* values, int64_t* sums, int64_t count, void* scratch,
                   size_t scratch_bytes, cudaStream_t stream);
/// sums[i] = values[0] + ... + values[i]. sums may be values.
void inclusive_sum(const uint32_t* values, uint32_t* sums, int64_t count, void* scratch,
                   size_t scratch_bytes, cudaStream_t stream);
void inclusive_sum(const int64_t* values, int64_t* sums, int64_t count, void* scratch,
                   size_t scratch_bytes, cudaStream_t stream);

}  // namespace dlrm::cuda
