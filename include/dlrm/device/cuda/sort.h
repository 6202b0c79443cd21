#pragma once
#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

namespace dlrm::cuda {

/// Sorts and scans of device memory: CUB on a GPU, host code in the emulator. Each call queues work
/// on the stream and neither allocates nor waits. It may be captured into a graph. Results are
/// bitwise reproducible. The host passes `count`. If the device alone knows the count, pass the
/// capacity and pad with values that sort last. A count of 0 does nothing. Outputs must not overlap
/// inputs. `scratch` is device memory, aligned to 256 bytes. The function *_scratch returns its
/// size. Work queued later may use the same scratch.

/// Bytes of scratch for sort_pairs of up to `count` pairs.
size_t sort_pairs_scratch(int64_t count, size_t key_bytes);
/// Sorts pairs by bits [begin_bit, end_bit) of their keys, ascending. Pairs of equal bits keep
/// their order. Reads and writes (key + value) bytes once for every 8 bits: memory-bound.
void sort_pairs(const uint32_t* keys, uint32_t* sorted_keys, const uint32_t* values,
                uint32_t* sorted_values, int64_t count, int begin_bit, int end_bit, void* scratch,
                size_t scratch_bytes, cudaStream_t stream);
void sort_pairs(const uint64_t* keys, uint64_t* sorted_keys, const uint32_t* values,
                uint32_t* sorted_values, int64_t count, int begin_bit, int end_bit, void* scratch,
                size_t scratch_bytes, cudaStream_t stream);

/// Bytes of scratch for exclusive_sum of up to `count` elements of any type below. `count` must be
/// less than 2^31.
size_t sum_scratch(int64_t count);
/// sums[i] = values[0] + ... + values[i - 1]. sums may be values.
void exclusive_sum(const uint32_t* values, uint32_t* sums, int64_t count, void* scratch,
                   size_t scratch_bytes, cudaStream_t stream);
void exclusive_sum(const int64_t* values, int64_t* sums, int64_t count, void* scratch,
                   size_t scratch_bytes, cudaStream_t stream);

}  // namespace dlrm::cuda
