#pragma once
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "dlrm/comm/communicator.h"

namespace dlrm {

/// What calls are made of, kept for those to come: a steady state allocates nothing. Thread-safe.
class CallMemory {
 public:
  CallMemory() = default;
  ~CallMemory();
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;

  void* take(size_t bytes);
  void give_back(void* block, size_t bytes) noexcept;
  /// All zero, for `ranks` ranks.
  ExchangeLayout take_layout(size_t ranks);
  void give_back(ExchangeLayout layout);

 private:
  std::mutex mutex_;
  std::vector<std::pair<void*, size_t>> blocks_;
  std::vector<ExchangeLayout> layouts_;
};

}  // namespace dlrm
