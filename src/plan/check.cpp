#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "dlrm/core/error.h"
#include "dlrm/plan/plan.h"

namespace dlrm {
namespace {

using Shards = std::vector<const Shard*>;

std::string text_of(const Shard& shard) {
  return fmt::format("rows [{}, {}) x columns [{}, {}) on rank {}", shard.rows.begin,
                     shard.rows.end, shard.columns.begin, shard.columns.end, shard.rank);
}

/// Checks that rows are in a known tier, and that only data-parallel tables have
/// replicas.
void check_tiers(const Plan& plan, const ModelConfig& model, const std::vector<char>& replicated,
                 const std::string& where) {
  for (const Shard& shard : plan.shards) {
    DLRM_CHECK(shard.tier != MemoryTier::kAuto, "{}: a shard of table number {} is in no memory",
               where, shard.table);
  }
  std::vector<char> named(model.tables.size(), 0);
  for (const int t : plan.host_replicas) {
    const bool known = t >= 0 && t < static_cast<int>(replicated.size());
    if (known && named[static_cast<size_t>(t)]++) {
      throw usage_error("{}: data_parallel_host names table '{}' twice", where,
                        model.tables[static_cast<size_t>(t)].name);
    }
    if (known && replicated[static_cast<size_t>(t)]) continue;
    throw usage_error("{}: data_parallel_host names table {}, which is not data-parallel", where,
                      known ? "'" + model.tables[static_cast<size_t>(t)].name + "'"
                            : fmt::format("number {}", t));
  }
}

void check_bounds(const Shard& shard, const TableConfig& table, int world,
                  const std::string& where) {
  const auto inside = [](Range range, int64_t size) {
    return range.begin >= 0 && range.begin < range.end && range.end <= size;
  };
  if (!inside(shard.rows, table.rows) || !inside(shard.columns, table.dim)) {
    throw usage_error("{}: table '{}': {} is empty or not within its {} rows x {} columns", where,
                      table.name, text_of(shard), table.rows, table.dim);
  }
  if (shard.rank < 0 || shard.rank >= world) {
    throw usage_error("{}: table '{}': {}, but ranks go from 0 to {}", where, table.name,
                      text_of(shard), world - 1);
  }
}

/// Visits the rows and keeps the shards that cross the current row, by first column. A new shard
/// can only overlap its neighbours there.
void check_overlap(Shards shards, const TableConfig& table, const std::string& where) {
  std::sort(shards.begin(), shards.end(),
            [](const Shard* a, const Shard* b) { return a->rows.begin < b->rows.begin; });
  std::map<int64_t, const Shard*> active;
  std::multimap<int64_t, const Shard*> ends;
  const auto refuse = [&](const Shard& a, const Shard& b) {
    throw usage_error("{}: table '{}': {} and {} overlap; each cell must lie in exactly one shard",
                      where, table.name, text_of(a), text_of(b));
  };
  for (const Shard* shard : shards) {
    while (!ends.empty() && ends.begin()->first <= shard->rows.begin) {
      active.erase(ends.begin()->second->columns.begin);
      ends.erase(ends.begin());
    }
    const auto next = active.lower_bound(shard->columns.begin);
    if (next != active.end() && next->first < shard->columns.end) refuse(*next->second, *shard);
    if (next != active.begin()) {
      const Shard* before = std::prev(next)->second;
      if (before->columns.end > shard->columns.begin) refuse(*before, *shard);
    }
    active.emplace(shard->columns.begin, shard);
    ends.emplace(shard->rows.end, shard);
  }
}

/// The first column of row `row` that is in no shard.
std::optional<int64_t> uncovered_column(const Shards& shards, int64_t row, int64_t width) {
  std::vector<Range> held;
  for (const Shard* shard : shards) {
    if (shard->rows.begin <= row && row < shard->rows.end) held.push_back(shard->columns);
  }
  std::sort(held.begin(), held.end(), [](Range a, Range b) { return a.begin < b.begin; });
  int64_t column = 0;
  for (Range range : held) {
    if (range.begin > column) return column;
    column = range.end;
  }
  return column < width ? std::optional(column) : std::nullopt;
}

/// Shards that do not overlap cover a row if the sum of their widths is the table's. Needs time
/// n·log n.
void check_cover(const Shards& shards, const TableConfig& table, const std::string& where) {
  // Covered columns of the rows from one key to the next, as differences.
  std::map<int64_t, int64_t> changes = {{0, 0}};
  for (const Shard* shard : shards) {
    changes[shard->rows.begin] += shard->columns.size();
    changes[shard->rows.end] -= shard->columns.size();
  }
  int64_t covered = 0;
  for (const auto& [row, change] : changes) {
    covered += change;
    if (row == table.rows || covered == table.dim) continue;
    const auto column = uncovered_column(shards, row, table.dim);
    DLRM_CHECK(column.has_value(), "row {} of table '{}' is covered", row, table.name);
    throw usage_error(
        "{}: table '{}': row {}, column {} is in no shard; each cell must lie in "
        "exactly one",
        where, table.name, row, *column);
  }
}

}  // namespace

void check_plan(const Plan& plan, const ModelConfig& model, const std::string& where) {
  const int tables = static_cast<int>(model.tables.size());
  if (plan.world < 1) {
    throw usage_error("{}: world is {}; it must be at least 1", where, plan.world);
  }
  std::vector<char> replicated(model.tables.size(), 0);
  for (int t : plan.data_parallel) {
    if (t < 0 || t >= tables) {
      throw usage_error("{}: data_parallel names table number {}; there are {} tables", where, t,
                        tables);
    }
    if (replicated[static_cast<size_t>(t)]++) {
      throw usage_error("{}: data_parallel names table '{}' twice", where,
                        model.tables[static_cast<size_t>(t)].name);
    }
  }
  check_tiers(plan, model, replicated, where);
  std::vector<Shards> by_table(model.tables.size());
  for (const Shard& shard : plan.shards) {
    if (shard.table < 0 || shard.table >= tables) {
      throw usage_error("{}: a shard of table number {}; there are {} tables", where, shard.table,
                        tables);
    }
    check_bounds(shard, model.tables[static_cast<size_t>(shard.table)], plan.world, where);
    by_table[static_cast<size_t>(shard.table)].push_back(&shard);
  }
  for (size_t t = 0; t < by_table.size(); ++t) {
    const TableConfig& table = model.tables[t];
    if (replicated[t]) {
      if (by_table[t].empty()) continue;
      throw usage_error("{}: table '{}' is data-parallel and has shards; it must be one of both",
                        where, table.name);
    }
    if (by_table[t].empty()) {
      throw usage_error("{}: table '{}' is missing; it needs shards, or a place in data_parallel",
                        where, table.name);
    }
    check_overlap(by_table[t], table, where);
    check_cover(by_table[t], table, where);
  }
}

}  // namespace dlrm
