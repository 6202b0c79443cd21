#include "dlrm/device/cuda/sort.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "dlrm/core/error.h"

#include "simt/simt.h"

namespace dlrm::cuda {
namespace {

/// Requires as much scratch as a GPU's library might, so that a caller that provides none fails.
size_t scratch_for(int64_t count, size_t bytes) {
  return count == 0 ? 0 : 256 + static_cast<size_t>(count) * bytes;
}

void check_scratch(const void* scratch, size_t given, size_t needed) {
  DLRM_CHECK(given >= needed && (scratch || needed == 0), "scratch of {} bytes, {} are needed",
             given, needed);
}

template <class Key>
void sort(const Key* keys, Key* sorted_keys, const uint32_t* values, uint32_t* sorted_values,
          int64_t count, int begin_bit, int end_bit, const void* scratch, size_t scratch_bytes,
          cudaStream_t stream) {
  if (count == 0) return;
  check_scratch(scratch, scratch_bytes, sort_pairs_scratch(count, sizeof(Key)));
  DLRM_CHECK(0 <= begin_bit && begin_bit <= end_bit && end_bit <= int{8 * sizeof(Key)},
             "bits {} to {} of a key", begin_bit, end_bit);
  const auto work = [=] {
    const int width = end_bit - begin_bit;
    const auto part = [=](uint32_t i) -> Key {
      if (width == 0) return 0;
      return static_cast<Key>(keys[i] >> begin_bit) &
             static_cast<Key>(static_cast<Key>(~Key{0}) >>
                              (8 * sizeof(Key) - static_cast<size_t>(width)));
    };
    std::vector<uint32_t> order(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t x, uint32_t y) { return part(x) < part(y); });
    for (size_t i = 0; i < order.size(); ++i) {
      sorted_keys[i] = keys[order[i]];
      sorted_values[i] = values[order[i]];
    }
  };
  simt::stream_operation(stream, work, "sort_pairs");
}

template <class T>
void scan(const T* values, T* sums, int64_t count, const void* scratch, size_t scratch_bytes,
          cudaStream_t stream) {
  if (count == 0) return;
  check_scratch(scratch, scratch_bytes, sum_scratch(count));
  const auto work = [=] {
    T total = 0;
    for (int64_t i = 0; i < count; ++i) {
      const T value = values[i];
      sums[i] = total;
      total += value;
    }
  };
  simt::stream_operation(stream, work, "prefix sum");
}

}  // namespace

size_t sort_pairs_scratch(int64_t count, size_t key_bytes) {
  return scratch_for(count, key_bytes + sizeof(uint32_t));
}
size_t sum_scratch(int64_t count) { return scratch_for(count, 1); }

void sort_pairs(const uint32_t* keys, uint32_t* sorted_keys, const uint32_t* values,
                uint32_t* sorted_values, int64_t count, int begin_bit, int end_bit, void* scratch,
                size_t scratch_bytes, cudaStream_t stream) {
  sort(keys, sorted_keys, values, sorted_values, count, begin_bit, end_bit, scratch, scratch_bytes,
       stream);
}
void sort_pairs(const uint64_t* keys, uint64_t* sorted_keys, const uint32_t* values,
                uint32_t* sorted_values, int64_t count, int begin_bit, int end_bit, void* scratch,
                size_t scratch_bytes, cudaStream_t stream) {
  sort(keys, sorted_keys, values, sorted_values, count, begin_bit, end_bit, scratch, scratch_bytes,
       stream);
}

void exclusive_sum(const uint32_t* values, uint32_t* sums, int64_t count, void* scratch,
                   size_t scratch_bytes, cudaStream_t stream) {
  scan(values, sums, count, scratch, scratch_bytes, stream);
}
void exclusive_sum(const int64_t* values, int64_t* sums, int64_t count, void* scratch,
                   size_t scratch_bytes, cudaStream_t stream) {
  scan(values, sums, count, scratch, scratch_bytes, stream);
}

}  // namespace dlrm::cuda
