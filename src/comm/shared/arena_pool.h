#pragma once
#include <cstddef>
#include <mutex>
#include <vector>

#include "arena.h"

namespace dlrm::comm {

/// Recycles arena blocks for copies of data that lies elsewhere. Free and used blocks together take
/// at most twice the peak of the bytes in use, or 16 MiB. Thread-safe.
class ArenaPool {
 public:
  struct Block {
    std::byte* data = nullptr;  ///< null: the arena has no more memory
    size_t bytes = 0;
    ArenaAddress address;
  };

  explicit ArenaPool(Arena& arena) : arena_(arena) {}
  Block acquire(size_t bytes);
  void release(const Block& block);

 private:
  void trim();

  Arena& arena_;
  std::mutex mutex_;
  std::vector<Block> free_;
  size_t free_bytes_ = 0;
  size_t used_bytes_ = 0;
  size_t peak_used_bytes_ = 0;
};

}  // namespace dlrm::comm
