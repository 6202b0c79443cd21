#include "owned_shards.h"

namespace dlrm {

std::vector<OwnedShard> make_owned_shards(RowTools& tools, const EmbeddingOptions& options,
                                          const EmbeddingLayout& layout, RowPlacement* placement) {
  const OwnerLayout& mine = layout.owner(tools.context.comm.rank());
  std::vector<OwnedShard> shards;
  for (size_t s = 0; s < mine.slices.size(); ++s) {
    const Slice& slice = mine.slices[s];
    for (size_t c = 0; c < slice.columns.size(); ++c) {
      OwnedShard shard;
      shard.table = slice.table;
      shard.slice = static_cast<int>(s);
      shard.rows = slice.rows;
      shard.columns = slice.columns[c];
      const TableConfig& table = options.tables[static_cast<size_t>(slice.table)];
      shard.columns_cut = shard.columns.size() != table.dim;
      shard.features = layout.features_of(slice.table);
      shard.first_block =
          static_cast<size_t>(slice.first_block) + c * static_cast<size_t>(shard.features);
      if (slice.cache >= 0) {
        shard.store =
            placement->cache(slice.cache).rows_of(c, [placement] { placement->settle(); });
      } else {
        shard.store = make_resident_rows(
            tools, slice.kinds[c],
            RowShape(table, options.optimizer, options.seed, shard.rows, shard.columns));
      }
      shards.push_back(std::move(shard));
    }
  }
  return shards;
}

void add_lookups(const OwnedShard& shard, const EmbeddingLayout& layout, const OwnerLayout& mine,
                 const RoutedBatch& batch, BagPooling& pooling, const Matrix& e, Lookups& lookups) {
  for_pieces(shard, mine, batch, [&](size_t block, size_t piece) {
    const IdGroup& ids = batch.owner.pieces[piece];
    const BagPooling::Piece place = pooling.pooled(batch, block, piece, e);
    BagGroup lookup = bags_of(ids, shard.store->table());
    lookup.scale = place.scale;
    lookup.pooled = place.pooled;
    lookups.of(layout.features[static_cast<size_t>(mine.blocks[block].feature)]).push_back(lookup);
  });
}

void list_gradients(const OwnedShard& shard, const OwnerLayout& mine, const RoutedBatch& batch,
                    BagPooling& pooling, const Matrix& de, std::vector<BagGradient>& gradients) {
  for_pieces(shard, mine, batch, [&](size_t block, size_t piece) {
    const BagPooling::Piece place = pooling.gradient(batch, block, piece, de);
    gradients.push_back({place.pooled, place.scale});
  });
}

}  // namespace dlrm
