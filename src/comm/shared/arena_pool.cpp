#include "arena_pool.h"

#include <algorithm>

namespace dlrm::comm {
namespace {

constexpr size_t kMaxFree = 64;  // blocks
constexpr size_t kGranule = 4096;
constexpr size_t kMinCapacity = size_t{16} << 20;  // bytes that may always be kept

bool smaller(const ArenaPool::Block& a, const ArenaPool::Block& b) { return a.bytes < b.bytes; }

}  // namespace

ArenaPool::Block ArenaPool::acquire(size_t bytes) {
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
    free_bytes_ -= found.bytes;
  } else {
    found.bytes = (bytes + bytes / 8 + kGranule) / kGranule * kGranule;
    found.data = static_cast<std::byte*>(arena_.allocate(found.bytes));
    if (!found.data) return {};
    found.address = arena_.address_of(found.data, found.bytes);
  }
  used_bytes_ += found.bytes;
  peak_used_bytes_ = std::max(peak_used_bytes_, used_bytes_);
  return found;
}

void ArenaPool::release(const Block& block) {
  if (!block.data) return;
  const std::lock_guard lock(mutex_);
  free_.push_back(block);
  free_bytes_ += block.bytes;
  used_bytes_ -= block.bytes;
  trim();
}

/// Frees the smallest blocks: a larger one can replace them.
void ArenaPool::trim() {
  const size_t most = std::max(kMinCapacity, 2 * peak_used_bytes_);
  while (free_.size() > kMaxFree || free_bytes_ + used_bytes_ > most) {
    const auto smallest = std::min_element(free_.begin(), free_.end(), smaller);
    free_bytes_ -= smallest->bytes;
    arena_.deallocate(smallest->data);
    free_.erase(smallest);
  }
}

}  // namespace dlrm::comm
