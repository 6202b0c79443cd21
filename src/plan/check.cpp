#include <algorithm>

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

/// By table: 1 if it stands in a list of the plan, in which a table may stand once.
std::vector<char> listed(const std::vector<int>& list, const char* name, const ModelConfig& model,
                         const std::string& where) {
  std::vector<char> found(model.tables.size(), 0);
  for (const int t : list) {
    if (t < 0 || t >= static_cast<int>(found.size())) {
      throw usage_error("{}: {} names table number {}; there are {} tables", where, name, t,
                        found.size());
    }
    if (found[static_cast<size_t>(t)]++) {
      throw usage_error("{}: {} names table '{}' twice", where, name,
                        model.tables[static_cast<size_t>(t)].name);
    }
  }
  return found;
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

void check_overlap(Shards shards, const TableConfig& table, const std::string& where) {
  std::ranges::sort(shards, {}, [](const Shard* shard) { return shard->rows.begin; });
  for (size_t i = 0; i < shards.size(); ++i) {
    const Shard& a = *shards[i];
    for (size_t j = i + 1; j < shards.size() && shards[j]->rows.begin < a.rows.end; ++j) {
      const Shard& b = *shards[j];
      if (b.columns.begin >= a.columns.end || a.columns.begin >= b.columns.end) continue;
      throw usage_error(
          "{}: table '{}': {} and {} overlap; each cell must lie in exactly one shard", where,
          table.name, text_of(a), text_of(b));
    }
  }
}

/// Shards that do not overlap hold all cells if they hold as many as the table has.
void check_cover(const Shards& shards, const TableConfig& table, const std::string& where) {
  int64_t cells = 0;
  for (const Shard* shard : shards) cells += shard->rows.size() * shard->columns.size();
  if (cells == table.rows * table.dim) return;
  throw usage_error("{}: table '{}': {} of its {} cells are in no shard; each must lie in one",
                    where, table.name, table.rows * table.dim - cells, table.rows * table.dim);
}

/// The maximum of a bag is found where all of its rows are.
void check_whole_rows(const Shards& shards, const TableConfig& table, const std::string& where) {
  if (!table.pools_max()) return;
  for (const Shard* shard : shards) {
    if (shard->rows.size() == table.rows) continue;
    throw usage_error("{}: table '{}': {} is cut by rows, and a feature has pooling max: needs {}",
                      where, table.name, text_of(*shard), "whole tables, or columns of all rows");
  }
}

}  // namespace

void check_plan(const Plan& plan, const ModelConfig& model, const std::string& where) {
  const int tables = static_cast<int>(model.tables.size());
  if (plan.world < 1) {
    throw usage_error("{}: world is {}; it must be at least 1", where, plan.world);
  }
  const std::vector<char> replicated = listed(plan.data_parallel, "data_parallel", model, where);
  const std::vector<char> on_host = listed(plan.host_replicas, "data_parallel_host", model, where);
  for (size_t t = 0; t < replicated.size(); ++t) {
    if (!on_host[t] || replicated[t]) continue;
    throw usage_error("{}: data_parallel_host names table '{}', which is not data-parallel", where,
                      model.tables[t].name);
  }
  std::vector<Shards> by_table(model.tables.size());
  for (const Shard& shard : plan.shards) {
    if (shard.table < 0 || shard.table >= tables) {
      throw usage_error("{}: a shard of table number {}; there are {} tables", where, shard.table,
                        tables);
    }
    DLRM_CHECK(shard.tier != MemoryTier::kAuto, "{}: a shard of table number {} is in no memory",
               where, shard.table);
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
    check_whole_rows(by_table[t], table, where);
    check_overlap(by_table[t], table, where);
    check_cover(by_table[t], table, where);
  }
}

}  // namespace dlrm
