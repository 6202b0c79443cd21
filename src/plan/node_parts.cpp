#include "node_parts.h"

#include <algorithm>
#include <numeric>

namespace dlrm {
namespace {

struct Costly {
  Shard shard;
  double seconds = 0;
};

/// Parts of a shard in the order of its rows.
std::vector<Shard> parts_of(const Shard& shard, Cut cut) {
  const int64_t rows = std::min<int64_t>(cut.rows, shard.rows.size());
  const int64_t columns = std::min<int64_t>(cut.columns, shard.columns.size());
  const auto within = [](Range all, int64_t part, int64_t parts) {
    const Range own = part_of(all.size(), part, parts);
    return Range{all.begin + own.begin, all.begin + own.end};
  };
  std::vector<Shard> parts;
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t r = 0; r < rows; ++r) {
      parts.push_back(
          {shard.table, within(shard.rows, r, rows), within(shard.columns, c, columns), 0});
    }
  }
  return parts;
}

}  // namespace

std::vector<Shard> parts_in_nodes(const RunConfig& config, const CostModel& cost,
                                  int ranks_per_node, const std::vector<Shard>& shards) {
  if (ranks_per_node == 1) return shards;
  std::vector<Costly> order;
  for (const Shard& shard : shards) {
    const TableConfig& table = config.model.tables[static_cast<size_t>(shard.table)];
    order.push_back({shard, cost.shard(table, shard.rows.size(), shard.columns.size())});
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Costly& a, const Costly& b) { return a.seconds > b.seconds; });
  std::vector<double> loads(static_cast<size_t>(cost.world() * ranks_per_node), 0);
  std::vector<int> ranks(static_cast<size_t>(ranks_per_node));
  std::vector<Shard> parts;
  for (const auto& [shard, seconds] : order) {
    const TableConfig& table = config.model.tables[static_cast<size_t>(shard.table)];
    const Cut cut = cost.node_cut(table, shard.rows.size(), shard.columns.size());
    std::iota(ranks.begin(), ranks.end(), shard.rank * ranks_per_node);
    std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
      return loads[static_cast<size_t>(a)] < loads[static_cast<size_t>(b)];
    });
    std::vector<Shard> own = parts_of(shard, cut);
    std::sort(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(own.size()));
    for (size_t i = 0; i < own.size(); ++i) {
      own[i].rank = ranks[i];
      loads[static_cast<size_t>(ranks[i])] += seconds;
      parts.push_back(own[i]);
    }
  }
  return parts;
}

}  // namespace dlrm
