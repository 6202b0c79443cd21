#pragma once
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "dlrm/plan/plan.h"

namespace dlrm::testing {

using Tables = std::vector<TableConfig>;

inline void add(Plan& plan, int table, Range rows, Range columns, int rank) {
  if (rows.size() > 0 && columns.size() > 0) plan.shards.push_back({table, rows, columns, rank});
}

inline void add_grid(Plan& plan, const Tables& tables, int t, int row_parts, int column_parts,
                     int first_rank) {
  const TableConfig& table = tables[static_cast<size_t>(t)];
  for (int r = 0; r < row_parts; ++r) {
    for (int c = 0; c < column_parts; ++c) {
      add(plan, t, part_of(table.rows, r, row_parts), part_of(table.dim, c, column_parts),
          (first_rank + r * column_parts + c) % plan.world);
    }
  }
}

/// Adds shards whose columns are cut at random, and whose rows are cut differently for each column
/// part.
inline void add_ragged(Plan& plan, const Tables& tables, int t, std::mt19937& random) {
  const TableConfig& table = tables[static_cast<size_t>(t)];
  const auto cuts = [&](int64_t size) {
    std::vector<int64_t> at{0, size};
    for (int i = 0; i < 2; ++i) {
      at.push_back(std::uniform_int_distribution<int64_t>(0, size)(random));
    }
    std::sort(at.begin(), at.end());
    return at;
  };
  const std::vector<int64_t> columns = cuts(table.dim);
  for (size_t c = 0; c + 1 < columns.size(); ++c) {
    const std::vector<int64_t> rows = cuts(table.rows);
    for (size_t r = 0; r + 1 < rows.size(); ++r) {
      const int rank = std::uniform_int_distribution<int>(0, plan.world - 1)(random);
      add(plan, t, {rows[r], rows[r + 1]}, {columns[c], columns[c + 1]}, rank);
    }
  }
}

inline Plan plan_of(const std::string& kind, const Tables& tables, int world) {
  Plan plan;
  plan.world = world;
  std::mt19937 random(5);
  const std::vector<std::string> kinds{"row", "grid", "data_parallel", "column", "table"};
  for (int t = 0; t < static_cast<int>(tables.size()); ++t) {
    const std::string one = kind == "mixed" ? kinds[static_cast<size_t>(t) % kinds.size()] : kind;
    if (one == "table") add_grid(plan, tables, t, 1, 1, world - 1 - t % world);
    if (one == "row") add_grid(plan, tables, t, world, 1, t);
    if (one == "column") add_grid(plan, tables, t, 1, world, t);
    if (one == "grid") add_grid(plan, tables, t, 2, std::max(world / 2, 1), t);
    if (one == "two_columns_a_rank") add_grid(plan, tables, t, 1, 2 * world, t);
    if (one == "ragged") add_ragged(plan, tables, t, random);
    if (one == "data_parallel") plan.data_parallel.push_back(t);
  }
  std::sort(plan.shards.begin(), plan.shards.end(), [](const Shard& a, const Shard& b) {
    return std::tuple(a.rank, a.table, a.rows.begin, a.columns.begin) <
           std::tuple(b.rank, b.table, b.rows.begin, b.columns.begin);
  });
  return plan;
}

}  // namespace dlrm::testing
