#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace dlrm {

/// The last few different numbers that were added.
class RecentNumbers {
 public:
  RecentNumbers() { numbers_.fill(-1); }
  /// False if the number is one of the recent ones. Numbers are at least 0.
  bool add(int64_t number) {
    if (std::find(numbers_.begin(), numbers_.end(), number) != numbers_.end()) return false;
    numbers_[next_++ % numbers_.size()] = number;
    return true;
  }

 private:
  std::array<int64_t, 8> numbers_{};
  size_t next_ = 0;
};

}  // namespace dlrm
