#include "returned_shards.h"

#include <algorithm>

namespace dlrm {
namespace {

bool divides(const EmbeddingLayout& layout, int table) {
  const auto t = static_cast<size_t>(table);
  return std::any_of(layout.features.begin() + layout.first_feature[t],
                     layout.features.begin() + layout.first_feature[t + 1],
                     [](const FeaturePlace& feature) { return feature.mean; });
}

std::vector<ReturnedShard> shards_of(const EmbeddingLayout& layout, const OwnerLayout& owner,
                                     bool rounds) {
  std::vector<ReturnedShard> shards(static_cast<size_t>(owner.shards));
  for (const PooledBlock& block : owner.blocks) {
    const FeaturePlace& feature = layout.features[static_cast<size_t>(block.feature)];
    const Slice& slice =
        owner.slices[static_cast<size_t>(owner.groups[static_cast<size_t>(block.group)].slice)];
    const auto width = static_cast<double>(block.width);
    ReturnedShard& shard = shards[static_cast<size_t>(block.shard)];
    shard.lookups += width * static_cast<double>(feature.hotness) *
                     static_cast<double>(slice.rows.size()) / static_cast<double>(feature.rows);
    shard.vectors += width;
    shard.rounds =
        rounds && owner_rounds(slice.all_rows, divides(layout, slice.table), block.width);
  }
  return shards;
}

}  // namespace

std::vector<std::vector<ReturnedShard>> returned_shards(const EmbeddingLayout& layout,
                                                        bool rounds) {
  std::vector<std::vector<ReturnedShard>> shards;
  for (const OwnerLayout& owner : layout.owners) {
    shards.push_back(shards_of(layout, owner, rounds));
  }
  return shards;
}

}  // namespace dlrm
