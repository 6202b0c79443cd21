#pragma once
#include <cstddef>
#include <memory>
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

/// Gives a layout back at the end of a scope.
class LayoutReturn {
 public:
  LayoutReturn(CallMemory& memory, ExchangeLayout& layout) : memory_(memory), layout_(layout) {}
  ~LayoutReturn() { memory_.give_back(std::move(layout_)); }
  LayoutReturn(const LayoutReturn&) = delete;
  LayoutReturn& operator=(const LayoutReturn&) = delete;

 private:
  CallMemory& memory_;
  ExchangeLayout& layout_;
};

/// Base of calls that lie in such memory, which may outlive whatever they belong to.
struct InCallMemory {
  static void* operator new(size_t bytes, const std::shared_ptr<CallMemory>& memory);
  static void* operator new(size_t bytes) { return operator new(bytes, nullptr); }
  static void operator delete(void* call) noexcept;
  static void operator delete(void* call, const std::shared_ptr<CallMemory>&) noexcept {
    operator delete(call);
  }
};

}  // namespace dlrm
