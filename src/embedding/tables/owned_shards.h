#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "dlrm/comm/context.h"
#include "dlrm/embedding/row_store.h"
#include "dlrm/embedding/sharded_embeddings.h"

#include "embedding/pooling/bag_pooling.h"
#include "embedding/routing/routed_batch.h"
#include "embedding/tiers/row_placement.h"
#include "layout.h"
#include "lookups.h"

namespace dlrm {

/// A shard on this rank.
struct OwnedShard {
  int table = 0;
  int slice = 0;  ///< of this rank's OwnerLayout
  Range rows;
  Range columns;
  bool columns_cut = false;  ///< not all columns of the table
  size_t first_block = 0;    ///< the blocks of its features are consecutive
  int features = 0;
  std::unique_ptr<RowStore> store;
};

/// Calls body(block, piece) for each piece of each feature of `shard`, in feature order.
template <class Body>
void for_pieces(const OwnedShard& shard, const OwnerLayout& mine, const RoutedBatch& batch,
                const Body& body) {
  for (size_t i = 0; i < static_cast<size_t>(shard.features); ++i) {
    const size_t block = shard.first_block + i;
    const auto group = static_cast<size_t>(mine.blocks[block].group);
    const size_t end = batch.owner.first_piece[group + 1];
    for (size_t piece = batch.owner.first_piece[group]; piece < end; ++piece) body(block, piece);
  }
}

}  // namespace dlrm
