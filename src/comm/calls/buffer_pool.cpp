#include "buffer_pool.h"

#include <algorithm>
#include <utility>

namespace dlrm::comm {
namespace {

constexpr size_t kMaxFree = 32;  // beyond that the smallest blocks are freed
constexpr size_t kGranule = 4096;

}  // namespace

BufferPool::Block BufferPool::acquire(size_t bytes) {
  auto best = free_.end();
  for (auto block = free_.begin(); block != free_.end(); ++block) {
    if (block->capacity < bytes) continue;
    if (best == free_.end() || block->capacity < best->capacity) best = block;
  }
  if (best != free_.end()) {
    Block found = std::move(*best);
    free_.erase(best);
    return found;
  }
  const size_t capacity = (bytes + bytes / 8 + kGranule) / kGranule * kGranule;
  return {std::make_unique_for_overwrite<std::byte[]>(capacity), capacity};
}

void BufferPool::release(Block block) {
  if (!block.memory) return;
  free_.push_back(std::move(block));
  if (free_.size() <= kMaxFree) return;
  free_.erase(std::min_element(free_.begin(), free_.end(), [](const Block& a, const Block& b) {
    return a.capacity < b.capacity;
  }));
}

}  // namespace dlrm::comm
