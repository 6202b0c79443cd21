#pragma once
#include <mutex>
#include <vector>

#include "arena.h"

namespace dlrm {

/// Blocks of an arena that calls in flight borrow for copies of what lies elsewhere. What is kept
/// for the next calls and what is lent make no more than twice what was lent at once. Thread-safe.
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
  void trim();

  Arena& arena_;
  std::mutex mutex_;
  std::vector<Block> free_;
  size_t kept_bytes_ = 0;
  size_t lent_bytes_ = 0;
  size_t most_lent_ = 0;
};

}  // namespace dlrm
