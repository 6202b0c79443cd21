#include "dlrm/plan/node_sums.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "dlrm/plan/traffic.h"

#include "numbers.h"

namespace dlrm {
namespace {

/// A sum must spare this share of the vectors that its shards send one another.
constexpr double kWorthSum = 0.25;

bool pays(const TableConfig& table, RoutingMode mode, const std::vector<Shard>& shards) {
  double vectors = 0;
  for (const Shard& shard : shards) vectors += expected_vectors(mode, table, shard.rows);
  return node_sum_pays(table, vectors, real(shards.size()));
}

/// True if shards `a` and `b` of one plan have the same rows on the same rank.
bool same_slice(const Shard& a, const Shard& b) {
  return a.rank == b.rank && a.table == b.table && a.rows == b.rows;
}

}  // namespace

bool node_sum_pays(const TableConfig& table, double vectors, double shards) {
  const auto features = real(table.features.size());
  return shards > 1 && vectors - features > kWorthSum * (shards - 1) * features;
}

Range NodeSum::part(size_t i) const {
  const Range own =
      part_of(columns.size(), static_cast<int64_t>(i), static_cast<int64_t>(shards.size()));
  return {columns.begin + own.begin, columns.begin + own.end};
}

std::vector<NodeSum> node_sums(const std::vector<TableConfig>& tables, RoutingMode mode,
                               const Plan& plan) {
  std::vector<NodeSum> sums;
  if (plan.ranks_per_node < 2 || plan.ranks_per_node >= plan.world) return sums;
  std::vector<Shard> shards;
  for (const Shard& shard : plan.shards) {
    const TableConfig& table = tables[static_cast<size_t>(shard.table)];
    const bool cut = shard.rows.size() > 0 && shard.rows.size() < table.rows;
    if (cut && shard.columns.size() > 0) shards.push_back(shard);
  }
  const auto by_slice = [](const Shard& s) {
    return std::tuple(s.rank, s.table, s.rows.begin, s.rows.end);
  };
  std::sort(shards.begin(), shards.end(),
            [&](const Shard& a, const Shard& b) { return by_slice(a) < by_slice(b); });
  std::map<std::tuple<int, int64_t, int64_t, int>, std::vector<Shard>> families;
  for (size_t i = 0; i < shards.size(); ++i) {
    const Shard& shard = shards[i];
    if (i > 0 && same_slice(shard, shards[i - 1])) continue;
    if (i + 1 < shards.size() && same_slice(shard, shards[i + 1])) continue;
    std::vector<Shard>& family = families[{shard.table, shard.columns.begin, shard.columns.end,
                                           shard.rank / plan.ranks_per_node}];
    // Those of a rank follow each other.
    if (family.empty() || family.back().rank != shard.rank) family.push_back(shard);
  }
  for (auto& [key, family] : families) {
    const int table = std::get<0>(key);
    if (!pays(tables[static_cast<size_t>(table)], mode, family)) continue;
    std::sort(family.begin(), family.end(),
              [](const Shard& a, const Shard& b) { return a.rows.begin < b.rows.begin; });
    sums.push_back({table, family.front().columns, family});
  }
  return sums;
}

}  // namespace dlrm
