#pragma once
#include <algorithm>
#include <cstddef>
#include <mutex>
#include <new>
#include <vector>

namespace dlrm::comm {

/// Memory of this process alone, for a BlockPool.
struct HeapMemory {
  static void* allocate(size_t bytes) { return ::operator new(bytes); }
  static void deallocate(void* memory) { ::operator delete(memory); }
};

/// Recycles blocks of `Memory`, so that a steady state allocates nothing. Free and used blocks
/// together take at most twice the peak of the bytes in use, or 16 MiB. Thread-safe.
template <class Memory>
class BlockPool {
 public:
  struct Block {
    std::byte* data = nullptr;  ///< null: there is no more memory
    size_t bytes = 0;
  };

  explicit BlockPool(Memory& memory) : memory_(memory) {}
  ~BlockPool() {
    for (const Block& block : free_) memory_.deallocate(block.data);
  }
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// Returns at least `bytes` bytes. Their content is undefined.
  Block acquire(size_t bytes) {
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
      found.data = static_cast<std::byte*>(memory_.allocate(found.bytes));
      if (!found.data) return {};
    }
    used_bytes_ += found.bytes;
    peak_used_bytes_ = std::max(peak_used_bytes_, used_bytes_);
    return found;
  }

  void release(const Block& block) {
    if (!block.data) return;
    const std::lock_guard lock(mutex_);
    free_.push_back(block);
    free_bytes_ += block.bytes;
    used_bytes_ -= block.bytes;
    // The smallest are freed: a larger one can replace them.
    const size_t most = std::max(kMinCapacity, 2 * peak_used_bytes_);
    while (free_.size() > kMaxFree || free_bytes_ + used_bytes_ > most) {
      const auto smallest = std::min_element(free_.begin(), free_.end(), smaller);
      free_bytes_ -= smallest->bytes;
      memory_.deallocate(smallest->data);
      free_.erase(smallest);
    }
  }

 private:
  static constexpr size_t kMaxFree = 64;  // blocks
  static constexpr size_t kGranule = 4096;
  static constexpr size_t kMinCapacity = size_t{16} << 20;  // bytes that may always be kept

  static bool smaller(const Block& a, const Block& b) { return a.bytes < b.bytes; }

  Memory& memory_;
  std::mutex mutex_;
  std::vector<Block> free_;
  size_t free_bytes_ = 0;
  size_t used_bytes_ = 0;
  size_t peak_used_bytes_ = 0;
};

}  // namespace dlrm::comm
