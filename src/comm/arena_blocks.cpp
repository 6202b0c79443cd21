#include "arena_blocks.h"

#include <algorithm>

namespace dlrm {
namespace {

constexpr size_t kKept = 64;
constexpr size_t kGranule = 4096;
constexpr size_t kAlwaysKept = size_t{16} << 20;  // bytes

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
    kept_bytes_ -= found.bytes;
  } else {
    found.bytes = (bytes + bytes / 8 + kGranule) / kGranule * kGranule;
    found.data = static_cast<std::byte*>(arena_.take(found.bytes));
    if (!found.data) return {};
    found.spot = arena_.find(found.data, found.bytes);
  }
  lent_bytes_ += found.bytes;
  most_lent_ = std::max(most_lent_, lent_bytes_);
  return found;
}

void ArenaBlocks::give_back(const Block& block) {
  if (!block.data) return;
  const std::lock_guard lock(mutex_);
  free_.push_back(block);
  kept_bytes_ += block.bytes;
  lent_bytes_ -= block.bytes;
  trim();
}

/// The smallest go: a larger block serves in their place.
void ArenaBlocks::trim() {
  const size_t most = std::max(kAlwaysKept, 2 * most_lent_);
  while (free_.size() > kKept || kept_bytes_ + lent_bytes_ > most) {
    const auto smallest = std::min_element(free_.begin(), free_.end(), smaller);
    kept_bytes_ -= smallest->bytes;
    arena_.give_back(smallest->data);
    free_.erase(smallest);
  }
}

}  // namespace dlrm
