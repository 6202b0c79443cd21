#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/comm/communicator.h"

#include "layout.h"
#include "routed_batch.h"

namespace dlrm {

/// Where a batch's pooled vectors lie, in elements: those of my shards, rank after rank, and those
/// of my samples, owner after owner. Blocks that return all bags come first in a rank's part, side
/// by side; the others follow.
class PooledLayout {
 public:
  PooledLayout(const EmbeddingLayout& layout, int rank);

  void set(const RoutedBatch& batch);

  int64_t owned_size() const { return owned_end_.back(); }
  int64_t requested_size() const { return requested_end_.back(); }
  /// A piece of my block `block` among the vectors of my shards.
  int64_t owned_at(size_t block, size_t piece) const { return owned_at_[block * pieces_ + piece]; }
  /// Block `number`, counted over all owners, among the vectors of my samples.
  int64_t requested_at(size_t number) const { return requested_at_[number]; }
  /// The same of a block of mine, among the vectors of my shards. The two orders are the same.
  int64_t own_at(size_t number) const {
    return requested_at_[number] - start_of(requested_end_) + start_of(owned_end_);
  }

  /// Owners to requesters, in elements of `element_bytes`. A rank's own vectors stay in place.
  const ExchangeLayout& forward(size_t element_bytes);
  /// Requesters to owners.
  const ExchangeLayout& backward(size_t element_bytes);

 private:
  void place_owned(const RoutedBatch& batch);
  void place_requested(const RoutedBatch& batch);
  void fill(const std::vector<int64_t>& ends, size_t element_bytes, std::vector<int64_t>& sizes,
            std::vector<int64_t>& offsets) const;
  /// Where this rank's part starts.
  int64_t start_of(const std::vector<int64_t>& ends) const {
    return rank_ == 0 ? 0 : ends[static_cast<size_t>(rank_) - 1];
  }

  const EmbeddingLayout& layout_;
  const int rank_;
  size_t pieces_ = 1;
  std::vector<int64_t> owned_at_;                   ///< by block, then piece
  std::vector<int64_t> requested_at_;               ///< by number of the block
  std::vector<int64_t> owned_end_, requested_end_;  ///< where each rank's part ends
  ExchangeLayout exchange_;
};

}  // namespace dlrm
