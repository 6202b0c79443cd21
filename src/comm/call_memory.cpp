#include "call_memory.h"

#include <algorithm>
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
  *found = blocks_.back();
  blocks_.pop_back();
  return block;
}

void CallMemory::give_back(void* block, size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  if (blocks_.size() < kKept) {
    blocks_.emplace_back(block, bytes);
  } else {
    ::operator delete(block);
  }
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

}  // namespace dlrm
