#include "advice.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bound.h"
#include "memory.h"
#include "numbers.h"
#include "text.h"

namespace dlrm {
namespace {

constexpr int kMostRanks = 16384;

/// True if not even equal ranks would have enough memory: no plan puts less on all ranks together.
bool cannot_fit(const RunConfig& given, int world, const PlanOptions& options) {
  const RunConfig config = with_known_device(given, options);
  const double host = has_two_memories(config, options) ? host_budget(config, options) : 0;
  const double device = device_budget(config, options);
  if (device <= 0 || (has_two_memories(config, options) && host <= 0)) return false;
  const LeastMemory least = least_memory(config, world);
  constexpr double kRounding = 1 - 1e-9;
  return kRounding * least.common > device ||
         kRounding * (least.common + least.tables / world) > device + host;
}

bool fits_on(const RunConfig& config, int world, const PlanOptions& options) {
  if (cannot_fit(config, world, options)) return false;
  return fits_memory(config, make_plan(config, world, options), options);
}

/// Nearly the fewest ranks above `world` with which a plan fits. 0 if none is found. Plans take
/// time, so after a few of them the number doubles.
int ranks_that_fit(const RunConfig& config, int world, const PlanOptions& options) {
  constexpr int kNear = 4;
  int ranks = world + 1;
  for (int plans = 0; ranks <= kMostRanks;) {
    if (cannot_fit(config, ranks, options)) {
      ranks += std::max(1, ranks / 32);
      continue;
    }
    if (fits_memory(config, make_plan(config, ranks, options), options)) return ranks;
    ranks += ++plans < kNear ? std::max(1, ranks / 8) : ranks;
  }
  return 0;
}

}  // namespace

std::string largest_tables(const RunConfig& config, const Plan& plan, int rank) {
  std::vector<std::pair<double, std::string>> held;
  for (const Shard& shard : plan.shards) {
    if (shard.rank != rank) continue;
    const TableConfig& table = table_of(config, shard.table);
    const bool whole = shard.rows.size() == table.rows && shard.columns.size() == table.dim;
    std::string name = fmt::format("'{}'", table.name);
    if (!whole) {
      name += fmt::format(" rows [{}, {}) columns [{}, {})", shard.rows.begin, shard.rows.end,
                          shard.columns.begin, shard.columns.end);
    }
    if (shard.tier == MemoryTier::kHost) name += " (host)";
    held.emplace_back(held_bytes(config, table, shard.rows.size(), shard.columns.size()),
                      std::move(name));
  }
  for (const int t : plan.data_parallel) {
    const TableConfig& table = table_of(config, t);
    held.emplace_back(held_bytes(config, table, table.rows, table.dim),
                      fmt::format("'{}' (data-parallel)", table.name));
  }
  std::ranges::stable_sort(held, std::greater(), &std::pair<double, std::string>::first);
  constexpr size_t kNamed = 3;
  std::vector<std::string> named;
  for (const auto& [bytes, name] : held) {
    if (named.size() < kNamed) named.push_back(fmt::format("{} {} GiB", name, gib_text(bytes)));
  }
  return named.empty() ? "no table" : fmt::format("{}", fmt::join(named, ", "));
}

std::string what_would_fit(const RunConfig& config, const Plan& plan, const PlanOptions& given) {
  PlanOptions options = given;
  options.ranks_per_node = 0;
  RunConfig tiered = config;
  tiered.memory.tier = MemoryTier::kAuto;
  tiered.memory.tables.clear();
  if (has_two_memories(config, options) && tiered.memory != config.memory &&
      fits_on(tiered, plan.world, options)) {
    return "memory.tier: auto, and no memory.tables";
  }
  RunConfig automatic = config;
  automatic.sharding = ShardingConfig{};
  if (fits_on(automatic, plan.world, options)) {
    return fmt::format("sharding.strategy: auto on {} rank{}", plan.world, plural(plan.world));
  }
  const double budget = device_budget(config, options);
  const RankMemory least = common_memory(config, 1);
  const double per_rank = least.dense + least.input + least.activations;
  if (budget > 0 && per_rank > budget) {
    return fmt::format("no number of ranks: the dense part alone needs {} GiB a rank",
                       gib_text(per_rank));
  }
  if (const int ranks = ranks_that_fit(automatic, plan.world, options)) {
    return fmt::format("{} ranks with sharding.strategy: auto", ranks);
  }
  double tables = 0;
  for (const TableConfig& table : config.model.tables) {
    tables += held_bytes(config, table, table.rows, table.dim);
  }
  return fmt::format(
      "up to {} ranks nothing was found (all tables need {} GiB); a smaller "
      "train.global_batch_size, tables, or a lighter train.sparse_optimizer",
      kMostRanks, gib_text(tables));
}

}  // namespace dlrm
