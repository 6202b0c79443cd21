#include "call_pool.h"

#include <algorithm>
#include <cstddef>
#include <new>

namespace dlrm::comm {
namespace {

constexpr size_t kMaxFreeBlocks = 64;

/// Precedes each call in memory.
struct alignas(std::max_align_t) Header {
  std::shared_ptr<CallPool> pool;
  size_t bytes = 0;  ///< including this header
};

}  // namespace

CallPool::~CallPool() {
  for (const auto& [block, bytes] : blocks_) ::operator delete(block);
}

void* CallPool::acquire(size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(blocks_.begin(), blocks_.end(),
                                  [&](const auto& block) { return block.second == bytes; });
  if (found == blocks_.end()) {
    blocks_.reserve(kMaxFreeBlocks);  // release() must not fail
    return ::operator new(bytes);
  }
  void* block = found->first;
  blocks_.erase(found);
  return block;
}

void CallPool::release(void* block, size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  if (blocks_.size() == kMaxFreeBlocks) {
    // The oldest block belongs to a kind of call that is no longer made.
    ::operator delete(blocks_.front().first);
    blocks_.erase(blocks_.begin());
  }
  blocks_.emplace_back(block, bytes);
}

ExchangeLayout CallPool::acquire_layout(size_t ranks) {
  ExchangeLayout layout;
  {
    const std::lock_guard lock(mutex_);
    if (!layouts_.empty()) {
      layout = std::move(layouts_.back());
      layouts_.pop_back();
    }
  }
  for (auto* list :
       {&layout.send_bytes, &layout.send_offsets, &layout.receive_bytes, &layout.receive_offsets}) {
    list->assign(ranks, 0);
  }
  return layout;
}

void CallPool::release(ExchangeLayout layout) {
  const std::lock_guard lock(mutex_);
  if (layouts_.size() < kMaxFreeBlocks) layouts_.push_back(std::move(layout));
}

void* PooledCall::operator new(size_t bytes, const std::shared_ptr<CallPool>& pool) {
  bytes += sizeof(Header);
  return new (pool->acquire(bytes)) Header{pool, bytes} + 1;
}

void PooledCall::operator delete(void* call) noexcept {
  Header* header = static_cast<Header*>(call) - 1;
  const std::shared_ptr<CallPool> pool = std::move(header->pool);
  const size_t bytes = header->bytes;
  header->~Header();
  pool->release(header, bytes);
}

}  // namespace dlrm::comm
