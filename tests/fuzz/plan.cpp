// A plan file for four tables and three ranks.
#include "dlrm/plan/plan.h"

#include <functional>
#include <map>

#include "fuzz.h"

namespace dlrm::fuzz {
namespace {

constexpr int kWorld = 3;

ModelConfig make_model() {
  ModelConfig model;
  const auto add = [&](const std::string& name, int64_t rows, int64_t dim) {
    TableConfig table;
    table.name = table.group = name;
    table.rows = rows;
    table.dim = dim;
    table.features.push_back({name, 1, Pooling::kSum});
    model.tables.push_back(table);
  };
  add("a", 10, 4);
  add("b", 6, 2);
  add("c", 1, 1);
  add("large", int64_t{1} << 40, 16384);
  return model;
}

void check_ascending(const std::vector<int>& tables) {
  const auto wrong = std::adjacent_find(tables.begin(), tables.end(), std::greater_equal<>());
  if (wrong != tables.end()) fail("table {} is not before the next", *wrong);
}

/// Counts the shards of each cell of the small tables.
void check_cells(const Plan& plan, const ModelConfig& model) {
  for (int t = 0; t < 3; ++t) {
    const TableConfig& table = model.tables[static_cast<size_t>(t)];
    std::map<std::pair<int64_t, int64_t>, int> shards;
    for (const Shard& shard : plan.shards) {
      if (shard.rank < 0 || shard.rank >= kWorld) fail("rank {}", shard.rank);
      if (shard.table != t) continue;
      for (int64_t row = shard.rows.begin; row < shard.rows.end; ++row) {
        for (int64_t c = shard.columns.begin; c < shard.columns.end; ++c) ++shards[{row, c}];
      }
    }
    const bool replicated = std::count(plan.data_parallel.begin(), plan.data_parallel.end(), t) > 0;
    for (int64_t cell = 0; cell < table.rows * table.dim; ++cell) {
      const int count = shards[{cell / table.dim, cell % table.dim}];
      if (count != (replicated ? 0 : 1)) fail("cell {} of {} is in {} shards", cell, t, count);
    }
    if (!replicated && shards.size() != static_cast<size_t>(table.rows * table.dim)) {
      fail("a shard lies outside of {}", t);
    }
  }
}

}  // namespace
}  // namespace dlrm::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dlrm;
  using namespace dlrm::fuzz;
  static const ModelConfig model = make_model();
  const std::string text(reinterpret_cast<const char*>(data), size);
  Plan plan;
  if (!accepted(ExitCode::kUsage, [&] { plan = parse_plan(text, "plan.json", model, kWorld); })) {
    return 0;
  }
  check_ascending(plan.data_parallel);
  check_ascending(plan.host_replicas);
  check_cells(plan, model);
  const std::string written = to_json(plan, model);
  if (parse_plan(written, "again.json", model, kWorld) != plan) {
    fail("changes when it is written and read: {}", written);
  }
  return 0;
}
