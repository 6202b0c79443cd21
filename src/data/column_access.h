#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace dlrm {

/// Element `index` of a column that may be unaligned.
template <class T>
T element(const std::byte* column, int64_t index) {
  T value;
  std::memcpy(&value, column + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

/// Samples between the request of a value and its use. With a shuffled order each value is a random
/// access to memory, and a core can wait for several of them at the same time.
constexpr size_t kAhead = 16;

/// Requests bytes of a column. Uses assembly, because GCC drops calls of a function that contains
/// only __builtin_prefetch.
inline void request(const std::byte* from, int64_t bytes) {
  constexpr int64_t kLine = 64, kMost = 8 * kLine;  // the processor requests the lines after these
  for (int64_t i = 0; i < std::min(bytes, kMost); i += kLine) {
    asm volatile("prefetcht0 %0" : : "m"(from[i]));
  }
}

}  // namespace dlrm
