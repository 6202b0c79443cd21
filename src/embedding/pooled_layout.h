#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/comm/communicator.h"

#include "layout.h"
#include "routed_batch.h"

namespace dlrm {

/// The positions of a batch's pooled vectors in two buffers, in elements. The owned buffer holds
/// the vectors of this rank's shards, by the rank that they are sent to. The requested buffer holds
/// the vectors of this rank's samples, by owner. In each rank's part, the blocks that return all
/// bags come first, as columns of one matrix. The other blocks follow one after another.
class PooledLayout {
 public:
  PooledLayout(const EmbeddingLayout& layout, int rank);

  void set(const RoutedBatch& batch);

  int64_t owned_size() const { return owned_end_.back(); }
  int64_t requested_size() const { return requested_end_.back(); }
  /// Position of a piece of my block `block` in the owned buffer.
  int64_t owned_at(size_t block, size_t piece) const { return owned_at_[block * pieces_ + piece]; }
  /// Position of block `number`, counted over all owners, in the requested buffer.
  int64_t requested_at(size_t number) const { return requested_at_[number]; }
  /// Position of my own block `number` in the owned buffer. Both buffers have the same order.
  int64_t own_at(size_t number) const {
    return requested_at_[number] - start_of(requested_end_) + start_of(owned_end_);
  }

  /// The exchange from owners to requesters, in elements of `element_bytes`. A rank's own vectors
  /// stay in place.
  const ExchangeLayout& forward(size_t element_bytes);
  /// The exchange from requesters to owners.
  const ExchangeLayout& backward(size_t element_bytes);

 private:
  void place_owned(const RoutedBatch& batch);
  void place_requested(const RoutedBatch& batch);
  void fill(const std::vector<int64_t>& ends, size_t element_bytes, std::vector<int64_t>& sizes,
            std::vector<int64_t>& offsets) const;
  /// The start of this rank's part.
  int64_t start_of(const std::vector<int64_t>& ends) const {
    return rank_ == 0 ? 0 : ends[static_cast<size_t>(rank_) - 1];
  }

  const EmbeddingLayout& layout_;
  const int rank_;
  size_t pieces_ = 1;
  std::vector<int64_t> owned_at_;                   ///< by block, then piece
  std::vector<int64_t> requested_at_;               ///< by number of the block
  std::vector<int64_t> owned_end_, requested_end_;  ///< the end of each rank's part
  ExchangeLayout exchange_;
};

}  // namespace dlrm
