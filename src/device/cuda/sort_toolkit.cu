#include <algorithm>
#include <limits>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "dlrm/device/cuda/check.h"
#include "dlrm/device/cuda/sort.h"

namespace dlrm::cuda {
namespace {

/// As of CUDA 12.4, CUB's sums count in int and would silently truncate a larger count.
int items(int64_t count) {
  const bool fits = count <= std::numeric_limits<int>::max();
  check(fits ? cudaSuccess : cudaErrorInvalidValue, "a sum over 2^31 numbers or more");
  return static_cast<int>(count);
}

/// The scratch bytes that `call` reports when it is called without scratch.
template <class Call>
size_t asked(const Call& call) {
  size_t bytes = 0;
  check(call(static_cast<void*>(nullptr), bytes), "size of cub's scratch");
  return bytes;
}

/// Passes the count in 32 bits if it fits, because CUB's kernels then need fewer registers.
template <class Key>
cudaError_t sort(void* scratch, size_t& bytes, const Key* keys, Key* sorted_keys,
                 const uint32_t* values, uint32_t* sorted_values, int64_t count, int begin_bit,
                 int end_bit, cudaStream_t stream) {
  const auto by = [&](auto n) {
    return cub::DeviceRadixSort::SortPairs(scratch, bytes, keys, sorted_keys, values, sorted_values,
                                           n, begin_bit, end_bit, stream);
  };
  return count <= std::numeric_limits<int32_t>::max() ? by(static_cast<uint32_t>(count))
                                                      : by(count);
}

template <class Key>
size_t sort_scratch(int64_t count) {
  return asked([&](void* scratch, size_t& bytes) {
    return sort<Key>(scratch, bytes, nullptr, nullptr, nullptr, nullptr, count, 0,
                     static_cast<int>(sizeof(Key) * 8), nullptr);
  });
}

template <class T>
size_t scan_scratch(int64_t count) {
  return asked([&](void* scratch, size_t& bytes) {
    return cub::DeviceScan::ExclusiveSum(scratch, bytes, static_cast<const T*>(nullptr),
                                         static_cast<T*>(nullptr), items(count));
  });
}

}  // namespace

size_t sort_pairs_scratch(int64_t count, size_t key_bytes) {
  if (count == 0) return 0;
  return key_bytes == sizeof(uint32_t) ? sort_scratch<uint32_t>(count)
                                       : sort_scratch<uint64_t>(count);
}
size_t sum_scratch(int64_t count) {
  if (count == 0) return 0;
  return std::max(scan_scratch<uint32_t>(count), scan_scratch<int64_t>(count));
}

void sort_pairs(const uint32_t* keys, uint32_t* sorted_keys, const uint32_t* values,
                uint32_t* sorted_values, int64_t count, int begin_bit, int end_bit, void* scratch,
                size_t scratch_bytes, cudaStream_t stream) {
  if (count == 0) return;
  check(sort(scratch, scratch_bytes, keys, sorted_keys, values, sorted_values, count, begin_bit,
             end_bit, stream),
        "cub::DeviceRadixSort");
}
void sort_pairs(const uint64_t* keys, uint64_t* sorted_keys, const uint32_t* values,
                uint32_t* sorted_values, int64_t count, int begin_bit, int end_bit, void* scratch,
                size_t scratch_bytes, cudaStream_t stream) {
  if (count == 0) return;
  check(sort(scratch, scratch_bytes, keys, sorted_keys, values, sorted_values, count, begin_bit,
             end_bit, stream),
        "cub::DeviceRadixSort");
}

void exclusive_sum(const uint32_t* values, uint32_t* sums, int64_t count, void* scratch,
                   size_t scratch_bytes, cudaStream_t stream) {
  if (count == 0) return;
  check(cub::DeviceScan::ExclusiveSum(scratch, scratch_bytes, values, sums, items(count), stream),
        "cub::DeviceScan");
}
void exclusive_sum(const int64_t* values, int64_t* sums, int64_t count, void* scratch,
                   size_t scratch_bytes, cudaStream_t stream) {
  if (count == 0) return;
  check(cub::DeviceScan::ExclusiveSum(scratch, scratch_bytes, values, sums, items(count), stream),
        "cub::DeviceScan");
}

}  // namespace dlrm::cuda
