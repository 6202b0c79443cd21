#include "layout.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "dlrm/plan/node_sums.h"
#include "dlrm/plan/traffic.h"

namespace dlrm {
namespace {

MemoryKind kind_of(MemoryTier tier) {
  return tier == MemoryTier::kHost ? MemoryKind::kHost : MemoryKind::kDevice;
}

void place_features(const std::vector<TableConfig>& tables, EmbeddingLayout& layout) {
  layout.first_feature.push_back(0);
  for (size_t t = 0; t < tables.size(); ++t) {
    const TableConfig& table = tables[t];
    for (const FeatureConfig& feature : table.features) {
      FeaturePlace place;
      place.name = feature.name;
      place.table = static_cast<int>(t);
      place.rows = table.rows;
      place.width = table.dim;
      place.column = layout.width;
      place.hotness = feature.hotness;
      place.mean = feature.pooling == Pooling::kMean;
      place.max = feature.pooling == Pooling::kMax;
      place.weighted = feature.weights;
      place.replicated = std::binary_search(layout.replicated.begin(), layout.replicated.end(),
                                            static_cast<int>(t));
      layout.features.push_back(place);
      layout.width += table.dim;
    }
    layout.first_feature.push_back(static_cast<int>(layout.features.size()));
  }
}

void add_shard(const Shard& shard, int64_t table_rows, OwnerLayout& owner) {
  if (owner.slices.empty() || owner.slices.back().table != shard.table ||
      owner.slices.back().rows != shard.rows) {
    Slice slice;
    slice.table = shard.table;
    slice.rows = shard.rows;
    slice.all_rows = shard.rows.size() == table_rows;
    if (shard.tier == MemoryTier::kCached) slice.cache = owner.caches++;
    owner.slices.push_back(slice);
  }
  owner.slices.back().columns.push_back(shard.columns);
  owner.slices.back().kinds.push_back(kind_of(shard.tier));
}

/// The first of a shard's entries in OwnerLayout::sums, by table, first row and first column.
using SummedShards = std::map<std::tuple<int, int64_t, int64_t>, int>;

SummedShards place_sums(const std::vector<NodeSum>& sums, EmbeddingLayout& layout) {
  SummedShards first_of_shard;
  for (const NodeSum& sum : sums) {
    SummedBlock block;
    block.width = sum.columns.size();
    block.first_row = sum.shards.front().rows.begin;
    for (size_t i = 0; i < sum.shards.size(); ++i) {
      const Range part = sum.part(i);
      block.ranks.push_back(sum.shards[i].rank);
      block.parts.push_back({part.begin - sum.columns.begin, part.end - sum.columns.begin});
    }
    for (const Shard& shard : sum.shards) {
      OwnerLayout& owner = layout.owners[static_cast<size_t>(shard.rank)];
      first_of_shard[{shard.table, shard.rows.begin, shard.columns.begin}] =
          static_cast<int>(owner.sums.size());
      for (int f = 0; f < layout.features_of(shard.table); ++f) {
        block.column = owner.partial_width;
        owner.partial_width += block.width;
        owner.sums.push_back(block);
      }
      ++block.place;
    }
  }
  return first_of_shard;
}

/// The part of a sum whose vectors the rank of `block` adds.
void return_part(PooledBlock block, OwnerLayout& owner) {
  SummedBlock& sum = owner.sums[static_cast<size_t>(block.sum)];
  const Range part = sum.parts[sum.place];
  if (part.size() == 0) return;
  sum.returned = static_cast<int>(owner.returned.size());
  block.first_row = sum.first_row;
  block.width = part.size();
  block.e_column += part.begin;
  owner.returned.push_back(block);
}

void place_blocks(const EmbeddingLayout& layout, const SummedShards& summed, RoutingMode mode,
                  OwnerLayout& owner) {
  for (size_t s = 0; s < owner.slices.size(); ++s) {
    Slice& slice = owner.slices[s];
    const int first = layout.first_feature[static_cast<size_t>(slice.table)];
    const int count = layout.features_of(slice.table);
    slice.first_group = static_cast<int>(owner.groups.size());
    slice.first_block = static_cast<int>(owner.blocks.size());
    const auto sum = summed.find({slice.table, slice.rows.begin, slice.columns.front().begin});
    for (int f = first; f < first + count; ++f) {
      const FeaturePlace& place = layout.features[static_cast<size_t>(f)];
      const bool skips_empty_bags =
          sum == summed.end() &&
          returns_only_non_empty_bags(mode, place.hotness, slice.rows, place.rows);
      owner.groups.push_back({static_cast<int>(s), f, skips_empty_bags});
      owner.by_source |= skips_empty_bags;
    }
    for (const Range& columns : slice.columns) {
      for (int f = first; f < first + count; ++f) {
        PooledBlock block;
        block.group = slice.first_group + (f - first);
        block.feature = f;
        block.shard = owner.shards;
        block.first_row = slice.rows.begin;
        block.width = columns.size();
        block.skips_empty_bags = owner.groups[static_cast<size_t>(block.group)].skips_empty_bags;
        block.e_column = layout.features[static_cast<size_t>(f)].column + columns.begin;
        if (sum != summed.end()) {
          block.sum = sum->second + (f - first);
          return_part(block, owner);
        } else {
          block.returned = static_cast<int>(owner.returned.size());
          owner.returned.push_back(block);
        }
        owner.blocks.push_back(block);
      }
      ++owner.shards;
    }
  }
}

void place_cuts(EmbeddingLayout& layout) {
  std::vector<std::vector<int64_t>> borders(layout.table_names.size());
  for (const OwnerLayout& owner : layout.owners) {
    for (const Slice& slice : owner.slices) {
      auto& of_table = borders[static_cast<size_t>(slice.table)];
      of_table.insert(of_table.end(), {slice.rows.begin, slice.rows.end});
    }
  }
  for (auto& of_table : borders) {
    std::sort(of_table.begin(), of_table.end());
    of_table.erase(std::unique(of_table.begin(), of_table.end()), of_table.end());
  }
  for (OwnerLayout& owner : layout.owners) {
    for (Slice& slice : owner.slices) {
      const auto& of_table = borders[static_cast<size_t>(slice.table)];
      auto border = std::upper_bound(of_table.begin(), of_table.end(), slice.rows.begin);
      for (; *border < slice.rows.end; ++border) {
        slice.cuts.push_back(*border - slice.rows.begin);
      }
    }
  }
}

/// Owners of the same rows have them in different slots if a slice is cached, and together with
/// other rows if it has cuts. If one slice of cut columns is so, all those of its table are
/// ordered, because owners of the same rows must send the same number of sums.
void choose_ordered(EmbeddingLayout& layout) {
  const auto columns_cut = [&](const Slice& slice) {
    const int first = layout.first_feature[static_cast<size_t>(slice.table)];
    return slice.columns.front().size() != layout.features[static_cast<size_t>(first)].width;
  };
  std::vector<char> of_table(layout.table_names.size());
  for (const OwnerLayout& owner : layout.owners) {
    for (const Slice& slice : owner.slices) {
      if (!columns_cut(slice) || (slice.cache < 0 && slice.cuts.empty())) continue;
      of_table[static_cast<size_t>(slice.table)] = 1;
    }
  }
  for (OwnerLayout& owner : layout.owners) {
    for (Slice& slice : owner.slices) {
      slice.ordered = of_table[static_cast<size_t>(slice.table)] != 0 && columns_cut(slice);
    }
  }
}

}  // namespace

EmbeddingLayout::EmbeddingLayout(const std::vector<TableConfig>& tables, const Plan& plan,
                                 RoutingMode mode, bool lists_orders)
    : owners(static_cast<size_t>(plan.world)),
      replicated(plan.data_parallel),
      id_bytes(id_bytes_of(tables, plan)),
      local(pools_locally(tables, plan)) {
  for (const TableConfig& table : tables) table_names.push_back(table.name);
  std::sort(replicated.begin(), replicated.end());
  for (const int t : replicated) {
    const auto& host = plan.host_replicas;
    const bool on_host = std::find(host.begin(), host.end(), t) != host.end();
    replica_kinds.push_back(on_host ? MemoryKind::kHost : MemoryKind::kDevice);
  }
  place_features(tables, *this);
  std::vector<Shard> shards = plan.shards;
  const auto order = [](const Shard& s) {
    return std::tuple(s.rank, s.table, s.rows.begin, s.rows.end, s.columns.begin);
  };
  std::sort(shards.begin(), shards.end(),
            [&](const Shard& a, const Shard& b) { return order(a) < order(b); });
  for (const Shard& shard : shards) {
    if (shard.rows.size() == 0 || shard.columns.size() == 0) continue;
    add_shard(shard, tables[static_cast<size_t>(shard.table)].rows,
              owners[static_cast<size_t>(shard.rank)]);
  }
  const SummedShards summed = place_sums(node_sums(tables, mode, plan), *this);
  for (OwnerLayout& owner : owners) {
    owner.first_group = groups;
    place_blocks(*this, summed, mode, owner);
    groups += static_cast<int>(owner.groups.size());
  }
  place_cuts(*this);
  if (lists_orders) choose_ordered(*this);
}

bool EmbeddingLayout::weighted(int table) const {
  const auto first = features.begin() + first_feature[static_cast<size_t>(table)];
  return std::any_of(first, first + features_of(table),
                     [](const FeaturePlace& feature) { return feature.weighted; });
}

bool EmbeddingLayout::caches_rows() const {
  return std::any_of(owners.begin(), owners.end(),
                     [](const OwnerLayout& owner) { return owner.caches > 0; });
}

bool EmbeddingLayout::orders_rows() const {
  return std::any_of(owners.begin(), owners.end(), [](const OwnerLayout& owner) {
    return std::any_of(owner.slices.begin(), owner.slices.end(),
                       [](const Slice& slice) { return slice.ordered; });
  });
}

bool EmbeddingLayout::sums_in_nodes() const {
  return std::any_of(owners.begin(), owners.end(),
                     [](const OwnerLayout& owner) { return !owner.sums.empty(); });
}

}  // namespace dlrm
