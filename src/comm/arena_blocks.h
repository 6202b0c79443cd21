#pragma once
#include <mutex>
#include <vector>

#include "arena.h"

namespace dlrm {

/// Blocks of an arena that calls in flight borrow for copies of what lies elsewhere. Thread-safe.
class ArenaBlocks {
 public:
  struct Block {
    std::byte* data = nullptr;  ///< null: the arena has no more
    size_t bytes = 0;
    Spot spot;
  };

  explicit ArenaBlocks(Arena& arena) : arena_(arena) {}
  Block take(size_t bytes);
  void give_back(const Block& block);

 private:
  Arena& arena_;
  std::mutex mutex_;
  std::vector<Block> free_;
};

}  // namespace dlrm
