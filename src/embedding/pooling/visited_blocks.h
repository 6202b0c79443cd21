#pragma once
#include <bit>
#include <cstdint>
#include <vector>

#include "embedding/routing/routed_batch.h"
#include "embedding/tables/layout.h"

namespace dlrm {

/// The blocks that a rank copies from messages, or to them, in a batch: those of every bag, and
/// those that return only non-empty bags and have one. Blocks are numbered in the order in which
/// they were added.
class VisitedBlocks {
 public:
  explicit VisitedBlocks(int groups) : of_group_(static_cast<size_t>(groups)) {}

  /// `group` is counted over all owners.
  void add(const PooledBlock& block, int group) {
    const size_t number = count_++;
    always_.resize(number / 64 + 1);
    if (block.skips_empty_bags) {
      of_group_[static_cast<size_t>(group)].push_back(static_cast<uint32_t>(number));
    }
    // Columns of a shard of row 0 are set to zero.
    if (!block.skips_empty_bags || block.first_row == 0) set(always_, number);
  }

  void set(const RoutedBatch& batch) {
    visited_ = always_;
    const std::vector<ReturnedBags>& returned = batch.requester.returned;
    for (size_t g = 0; g < returned.size(); ++g) {
      if (returned[g].count == 0) continue;
      for (const uint32_t number : of_group_[g]) set(visited_, number);
    }
  }

  /// Calls visit(number) for each of them, in their order.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (size_t word = 0; word < visited_.size(); ++word) {
      for (uint64_t bits = visited_[word]; bits != 0; bits &= bits - 1) {
        visit(word * 64 + static_cast<size_t>(std::countr_zero(bits)));
      }
    }
  }

 private:
  static void set(std::vector<uint64_t>& bits, size_t number) {
    bits[number / 64] |= uint64_t{1} << (number % 64);
  }

  size_t count_ = 0;
  std::vector<uint64_t> always_, visited_;       ///< bits by number
  std::vector<std::vector<uint32_t>> of_group_;  ///< numbers of blocks
};

}  // namespace dlrm
