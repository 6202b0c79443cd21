#include "arena_blocks.h"

#include <algorithm>

namespace dlrm {
namespace {

constexpr size_t kKept = 32;  // beyond that the smallest go back to the arena
constexpr size_t kGranule = 4096;

bool smaller(const ArenaBlocks::Block& a, const ArenaBlocks::Block& b) { return a.bytes < b.bytes; }

}  // namespace

ArenaBlocks::Block ArenaBlocks::take(size_t bytes) {
  const std::lock_guard lock(mutex_);
  auto best = free_.end();
  for (auto block = free_.begin(); block != free_.end(); ++block) {
    if (block->bytes < bytes) continue;
    if (best == free_.end() || smaller(*block, *best)) best = block;
  }
  Block found;
  if (best != free_.end()) {
    found = *best;
    free_.erase(best);
    return found;
  }
  found.bytes = (bytes + bytes / 8 + kGranule) / kGranule * kGranule;
  found.data = static_cast<std::byte*>(arena_.take(found.bytes));
  if (found.data) found.spot = arena_.find(found.data, found.bytes);
  return found;
}

void ArenaBlocks::give_back(const Block& block) {
  if (!block.data) return;
  const std::lock_guard lock(mutex_);
  free_.push_back(block);
  if (free_.size() <= kKept) return;
  const auto smallest = std::min_element(free_.begin(), free_.end(), smaller);
  arena_.give_back(smallest->data);
  free_.erase(smallest);
}

}  // namespace dlrm
