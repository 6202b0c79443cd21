#pragma once
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "dlrm/comm/communicator.h"

namespace dlrm::comm {

/// Recycles the memory of calls and of their layouts, so that a steady state allocates nothing.
/// Thread-safe.
class CallPool {
 public:
  CallPool() = default;
  ~CallPool();
  CallPool(const CallPool&) = delete;
  CallPool& operator=(const CallPool&) = delete;

  void* acquire(size_t bytes);
  void release(void* block, size_t bytes) noexcept;
  /// Returns a layout for `ranks` ranks, all zero.
  ExchangeLayout acquire_layout(size_t ranks);
  void release(ExchangeLayout layout);

 private:
  std::mutex mutex_;
  std::vector<std::pair<void*, size_t>> blocks_;
  std::vector<ExchangeLayout> layouts_;
};

/// Releases a layout at the end of a scope.
class LayoutGuard {
 public:
  LayoutGuard(CallPool& pool, ExchangeLayout& layout) : pool_(pool), layout_(layout) {}
  ~LayoutGuard() { pool_.release(std::move(layout_)); }
  LayoutGuard(const LayoutGuard&) = delete;
  LayoutGuard& operator=(const LayoutGuard&) = delete;

 private:
  CallPool& pool_;
  ExchangeLayout& layout_;
};

/// Base of calls that are allocated from a pool: new (pool) T(...). The pool lives as long as any
/// of them.
struct PooledCall {
  static void* operator new(size_t bytes, const std::shared_ptr<CallPool>& pool);
  static void operator delete(void* call) noexcept;
  static void operator delete(void* call, const std::shared_ptr<CallPool>&) noexcept {
    operator delete(call);
  }
};

}  // namespace dlrm::comm
