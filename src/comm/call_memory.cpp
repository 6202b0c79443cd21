#include "call_memory.h"

#include <algorithm>
#include <cstddef>
#include <new>

namespace dlrm {
namespace {

constexpr size_t kKept = 64;

}  // namespace

CallMemory::~CallMemory() {
  for (const auto& [block, bytes] : blocks_) ::operator delete(block);
}

void* CallMemory::take(size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(blocks_.begin(), blocks_.end(),
                                  [&](const auto& block) { return block.second == bytes; });
  if (found == blocks_.end()) {
    blocks_.reserve(kKept);  // give_back must not fail
    return ::operator new(bytes);
  }
  void* block = found->first;
  blocks_.erase(found);
  return block;
}

void CallMemory::give_back(void* block, size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  if (blocks_.size() == kKept) {
    // What lay longest is of calls that are no longer made.
    ::operator delete(blocks_.front().first);
    blocks_.erase(blocks_.begin());
  }
  blocks_.emplace_back(block, bytes);
}

ExchangeLayout CallMemory::take_layout(size_t ranks) {
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

void CallMemory::give_back(ExchangeLayout layout) {
  const std::lock_guard lock(mutex_);
  if (layouts_.size() < kKept) layouts_.push_back(std::move(layout));
}

namespace {

/// Before each call.
struct alignas(std::max_align_t) Header {
  std::shared_ptr<CallMemory> memory;  ///< that the block goes back to
  size_t bytes = 0;                    ///< with this header
};

}  // namespace

void* InCallMemory::operator new(size_t bytes, const std::shared_ptr<CallMemory>& memory) {
  bytes += sizeof(Header);
  void* block = memory ? memory->take(bytes) : ::operator new(bytes);
  return new (block) Header{memory, bytes} + 1;
}

void InCallMemory::operator delete(void* call) noexcept {
  Header* header = static_cast<Header*>(call) - 1;
  const std::shared_ptr<CallMemory> memory = std::move(header->memory);
  const size_t bytes = header->bytes;
  header->~Header();
  if (memory) {
    memory->give_back(header, bytes);
  } else {
    ::operator delete(header);
  }
}

}  // namespace dlrm
