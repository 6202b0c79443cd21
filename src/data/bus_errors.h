#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace dlrm {

/// A range of mapped memory, guarded against SIGBUS.
struct GuardedRange {
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  std::atomic<bool> used{false};
  std::atomic<bool> lost{false};  ///< a page could not be read
  GuardedRange* next = nullptr;
};

/// From now on, if a page of the range cannot be read, that page and all after it become zeros, and
/// `lost` is set. Otherwise the process would end with SIGBUS. Works on every thread.
GuardedRange* guard_range(const void* begin, size_t bytes);
/// Call before the range is unmapped.
void release_range(GuardedRange* range);

}  // namespace dlrm
