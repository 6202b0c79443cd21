#include "shards.h"

#include <algorithm>
#include <cstdlib>
#include <tuple>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

Cut nearest_square(int world, int64_t width) {
  Cut best{world, 1};
  for (int columns = 2; columns <= world && columns <= width; ++columns) {
    if (world % columns != 0) continue;
    const Cut cut{world / columns, columns};
    // A row cut returns one partial vector per part. A column cut returns each column only once.
    if (std::abs(cut.rows - cut.columns) <= std::abs(best.rows - best.columns)) best = cut;
  }
  return best;
}

}  // namespace

void sort_plan(Plan& plan) {
  const auto key = [](const Shard& shard) {
    return std::make_tuple(shard.rank, shard.table, shard.rows.begin, shard.rows.end,
                           shard.columns.begin);
  };
  std::sort(plan.shards.begin(), plan.shards.end(),
            [&](const Shard& a, const Shard& b) { return key(a) < key(b); });
  std::sort(plan.data_parallel.begin(), plan.data_parallel.end());
  std::sort(plan.host_replicas.begin(), plan.host_replicas.end());
}

std::pair<size_t, size_t> shards_of_rank(const Plan& plan, int rank) {
  const auto begin = plan.shards.begin();
  const auto first = std::ranges::lower_bound(plan.shards, rank, {}, &Shard::rank);
  const auto last = std::ranges::upper_bound(plan.shards, rank, {}, &Shard::rank);
  return {first - begin, last - begin};
}

std::vector<Shard> cut_shard(const Shard& shard, Cut cut) {
  const int64_t row_parts = std::min<int64_t>(cut.rows, shard.rows.size());
  const int64_t column_parts = std::min<int64_t>(cut.columns, shard.columns.size());
  const auto part = [](Range range, int64_t i, int64_t parts) {
    const Range own = part_of(range.size(), i, parts);
    return Range{range.begin + own.begin, range.begin + own.end};
  };
  std::vector<Shard> shards;
  shards.reserve(static_cast<size_t>(row_parts * column_parts));
  for (int64_t r = 0; r < row_parts; ++r) {
    for (int64_t c = 0; c < column_parts; ++c) {
      shards.push_back(shard);
      shards.back().rows = part(shard.rows, r, row_parts);
      shards.back().columns = part(shard.columns, c, column_parts);
    }
  }
  return shards;
}

std::vector<Shard> cut_table(const TableConfig& table, int t, Cut cut) {
  return cut_shard({t, {0, table.rows}, {0, table.dim}, 0}, cut);
}

Cut cut_of(Strategy strategy, const TableConfig& table, int world) {
  switch (strategy) {
    case Strategy::kTable:
      return {1, 1};
    case Strategy::kRow:
      return {world, 1};
    case Strategy::kColumn:
      return {1, world};
    case Strategy::kGrid:
      return nearest_square(world, table.dim);
    case Strategy::kAuto:
    case Strategy::kDataParallel:
      break;
  }
  DLRM_CHECK(false, "auto and data-parallel tables have no cut of their own");
  return {};
}

}  // namespace dlrm
