#include "returned_parts.h"

#include <algorithm>
#include <numeric>

namespace dlrm {
namespace {

/// Bytes of memory that a GPU moves while an exchange of 8 ranks moves a byte, of which one eighth
/// stays: 4.8 TB/s and 450 GB/s of an H200.
constexpr double kLinkCost = 9;
/// With fewer ids per vector lookups are too short to hide an exchange.
constexpr double kLeastIdsPerVector = 2;

bool divides(const EmbeddingLayout& layout, int table) {
  const auto t = static_cast<size_t>(table);
  return std::any_of(layout.features.begin() + layout.first_feature[t],
                     layout.features.begin() + layout.first_feature[t + 1],
                     [](const FeaturePlace& feature) { return feature.mean; });
}

}  // namespace

std::vector<ReturnedParts::Returned> ReturnedParts::shards_of(const EmbeddingLayout& layout,
                                                              const OwnerLayout& owner,
                                                              bool rounds) {
  std::vector<Returned> shards(static_cast<size_t>(owner.shards));
  for (const PooledBlock& block : owner.blocks) {
    const FeaturePlace& feature = layout.features[static_cast<size_t>(block.feature)];
    const Slice& slice =
        owner.slices[static_cast<size_t>(owner.groups[static_cast<size_t>(block.group)].slice)];
    const auto width = static_cast<double>(block.width);
    Returned& shard = shards[static_cast<size_t>(block.shard)];
    shard.lookups += width * static_cast<double>(feature.hotness) *
                     static_cast<double>(slice.rows.size()) / static_cast<double>(feature.rows);
    shard.vectors += width;
    // An even number of bf16 values ends where fp32 may begin.
    shard.rounds =
        rounds && slice.all_rows && block.width % 2 == 0 && !divides(layout, slice.table);
  }
  return shards;
}

/// Chooses the first part.
void ReturnedParts::divide(std::vector<Returned>& shards) {
  std::vector<size_t> order(shards.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return shards[a].lookups * shards[b].sent() < shards[b].lookups * shards[a].sent();
  });
  double all = 0, first = 0;
  for (const Returned& shard : shards) all += shard.lookups + shard.vectors;
  for (const size_t s : order) {
    first += shards[s].lookups + shards[s].vectors + kLinkCost * shards[s].sent();
    if (first > all) break;
    shards[s].part = 0;
  }
}

ReturnedParts::ReturnedParts(const EmbeddingLayout& layout, bool rounds, int most) {
  double lookups = 0, vectors = 0;
  bool divided = false;
  for (const OwnerLayout& owner : layout.owners) {
    shards_.push_back(shards_of(layout, owner, rounds));
    divide(shards_.back());
    for (const Returned& shard : shards_.back()) {
      lookups += shard.lookups;
      vectors += shard.vectors;
      divided |= shard.part == 0;
    }
  }
  if (divided && lookups >= kLeastIdsPerVector * vectors) count_ = most;
}

}  // namespace dlrm
