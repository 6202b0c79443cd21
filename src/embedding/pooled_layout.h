#pragma once
#include <algorithm>
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
  /// The same with room for batches in which lists of vectors are a quarter longer.
  int64_t owned_room() const { return owned_size() + (owned_size() - owned_of_every_bag_) / 4; }
  int64_t requested_room() const {
    return requested_size() + (requested_size() - requested_of_every_bag_) / 4;
  }
  /// Position in the owned buffer of the vectors of my returned block `block` that rank `source`
  /// receives.
  /// OwnerSide::kEveryRank: of the first rank; those of the others follow.
  int64_t owned_at(size_t block, int source) const {
    const PooledBlock& place = layout_.owner(rank_).returned[block];
    const auto p = static_cast<size_t>(std::max(source, 0));
    if (!place.skips_empty_bags) return start_of(owned_end_, p) + place.column;
    return owned_at_[p * layout_.owner(rank_).returned.size() + block];
  }
  /// Position in the requested buffer of block `block` of rank `owner`. Its number, counted over
  /// all owners, is `number`.
  int64_t requested_at(const PooledBlock& block, int owner, size_t number) const {
    return block.skips_empty_bags
               ? requested_at_[number]
               : start_of(requested_end_, static_cast<size_t>(owner)) + block.column;
  }
  /// Position of my own block in the owned buffer. Both buffers have the same order.
  int64_t own_at(const PooledBlock& block, size_t number) const {
    const auto self = static_cast<size_t>(rank_);
    return requested_at(block, rank_, number) - start_of(requested_end_, self) +
           start_of(owned_end_, self);
  }

  /// The exchange from owners to requesters, in elements of `element_bytes`. A rank's own vectors
  /// stay in place.
  const ExchangeLayout& forward(size_t element_bytes);
  /// The exchange from requesters to owners.
  const ExchangeLayout& backward(size_t element_bytes);

 private:
  /// A block as far as its size is concerned. Layouts have very many.
  struct BlockSize {
    int32_t group;  ///< of its owner, or -1 if every bag is returned
    int32_t width;
  };

  void place_owned(const RoutedBatch& batch);
  void place_requested(const RoutedBatch& batch);
  void fill(const std::vector<int64_t>& ends, size_t element_bytes, std::vector<int64_t>& sizes,
            std::vector<int64_t>& offsets) const;
  /// The start of a rank's part.
  static int64_t start_of(const std::vector<int64_t>& ends, size_t rank) {
    return rank == 0 ? 0 : ends[rank - 1];
  }

  const EmbeddingLayout& layout_;
  const int rank_;
  std::vector<BlockSize> blocks_;                   ///< of all owners
  std::vector<size_t> first_block_;                 ///< [owners + 1] into blocks_
  std::vector<int32_t> bags_;                       ///< of my groups, source-major
  std::vector<int64_t> owned_at_;                   ///< of my blocks, source-major
  std::vector<int64_t> requested_at_;               ///< by number of the block
  std::vector<int64_t> owned_end_, requested_end_;  ///< the end of each rank's part
  /// Elements of blocks that return all bags.
  int64_t owned_of_every_bag_ = 0, requested_of_every_bag_ = 0;
  ExchangeLayout exchange_;
};

}  // namespace dlrm
