#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "dlrm/comm/communicator.h"

#include "embedding/routing/routed_batch.h"
#include "embedding/tables/layout.h"

namespace dlrm {

/// Positions in the buffers of vectors on their way, in units of the same number of bytes.
struct BufferPositions {
  int64_t owned = 0, requested = 0;
};

/// The positions of a batch's pooled vectors, or of their gradients, in two buffers. The owned
/// buffer holds the vectors of this rank's shards, by the rank that they are sent to. The requested
/// buffer holds the vectors of this rank's samples, by owner. In each rank's part, the blocks that
/// return all bags come first, as columns of one matrix. The other blocks follow one after another.
class PooledLayout {
 public:
  /// The units that a value of a block takes; 0 if the block is not in the buffers.
  using UnitsOf = std::function<int(int owner, const PooledBlock& block)>;

  PooledLayout(const EmbeddingLayout& layout, int rank, const UnitsOf& units_of);

  /// The vectors of a batch begin at these positions.
  void set(const RoutedBatch& batch, BufferPositions begin);
  BufferPositions end() const { return {owned_end_.back(), requested_end_.back()}; }
  /// Units that a batch takes whose lists of vectors are a quarter longer.
  BufferPositions room() const {
    const auto more = [](int64_t units, int64_t of_every_bag) {
      return units + (units - of_every_bag) / 4;
    };
    return {more(end().owned - begin_.owned, of_every_bag_.owned),
            more(end().requested - begin_.requested, of_every_bag_.requested)};
  }

  /// Position in the owned buffer of the vectors of my returned block `block` that rank `source`
  /// receives.
  /// OwnerSide::kEveryRank: of the first rank; those of the others follow.
  int64_t owned_at(size_t block, int source) const {
    const size_t number = first_block_[static_cast<size_t>(rank_)] + block;
    const auto p = static_cast<size_t>(std::max(source, 0));
    if (blocks_[number].group < 0) return owned_start(p) + blocks_[number].column;
    return owned_at_[p * layout_.owner(rank_).returned.size() + block];
  }
  /// Position in the requested buffer of block `number` of rank `owner`, counted over all owners.
  int64_t requested_at(int owner, size_t number) const {
    return blocks_[number].group < 0
               ? requested_start(static_cast<size_t>(owner)) + blocks_[number].column
               : requested_at_[number];
  }
  /// Position of my own block in the owned buffer. Both buffers have the same order.
  int64_t own_at(size_t number) const {
    const auto self = static_cast<size_t>(rank_);
    return requested_at(rank_, number) - requested_start(self) + owned_start(self);
  }
  /// From one vector of a block of `owner` to the next.
  int64_t stride(int owner, size_t number) const {
    return blocks_[number].group < 0 ? width_[static_cast<size_t>(owner)] : blocks_[number].width;
  }
  int64_t stride_of_mine(size_t block) const {
    return stride(rank_, first_block_[static_cast<size_t>(rank_)] + block);
  }

  /// The exchange from owners to requesters, in units of `unit_bytes`. A rank's own vectors stay in
  /// place.
  const ExchangeLayout& to_requesters(size_t unit_bytes);
  /// The exchange from requesters to owners.
  const ExchangeLayout& to_owners(size_t unit_bytes);

 private:
  /// A block as far as its size is concerned. Layouts have very many.
  struct BlockSize {
    int32_t group;   ///< of its owner, or -1 if every bag is returned
    int32_t width;   ///< units
    int32_t column;  ///< of the owner's matrix
  };

  void place_owned(const RoutedBatch& batch);
  void place_requested(const RoutedBatch& batch);
  void fill(const std::vector<int64_t>& ends, int64_t begin, size_t unit_bytes,
            std::vector<int64_t>& sizes, std::vector<int64_t>& offsets) const;
  /// The start of a rank's part.
  int64_t owned_start(size_t rank) const { return rank == 0 ? begin_.owned : owned_end_[rank - 1]; }
  int64_t requested_start(size_t rank) const {
    return rank == 0 ? begin_.requested : requested_end_[rank - 1];
  }

  const EmbeddingLayout& layout_;
  const int rank_;
  std::vector<BlockSize> blocks_;                   ///< of all owners
  std::vector<size_t> first_block_;                 ///< [owners + 1] into blocks_
  std::vector<int64_t> width_;                      ///< of each owner's matrix
  std::vector<int32_t> bags_;                       ///< of my groups, source-major
  std::vector<int64_t> owned_at_;                   ///< of my blocks, source-major
  std::vector<int64_t> requested_at_;               ///< by number of the block
  BufferPositions begin_;                           ///< of the first rank's part
  BufferPositions of_every_bag_;                    ///< units of blocks that return all bags
  std::vector<int64_t> owned_end_, requested_end_;  ///< the end of each rank's part
  ExchangeLayout exchange_;
};

}  // namespace dlrm
