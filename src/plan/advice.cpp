#include "advice.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bound.h"
#include "memory.h"
#include "text.h"

namespace dlrm {
namespace {

constexpr int kMostRanks = 16384;
constexpr size_t kNamed = 3;

double held_bytes(const RunConfig& config, const TableConfig& table, int64_t rows, int64_t width) {
  return row_bytes(table, rows, width) +
         state_bytes(config.train.sparse_optimizer.type, rows, width);
}

RunConfig with_auto(const RunConfig& config) {
  RunConfig automatic = config;
  automatic.sharding = ShardingConfig{};
  return automatic;
}

/// True if not even equal ranks would have enough memory: no plan puts less on all ranks together.
bool cannot_fit(const RunConfig& given, int world, const PlanOptions& options) {
  const RunConfig config = with_known_device(given, options);
  const bool two = has_two_memories(config, options);
  const double device = device_budget(config, options);
  if (device <= 0 || (two && host_budget(config, options) <= 0)) return false;
  const LeastMemory least = least_memory(config, world);
  constexpr double kRounding = 1 - 1e-9;
  const double room = device + (two ? host_budget(config, options) : 0);
  return kRounding * least.common > device ||
         kRounding * (least.common + least.tables / world) > room;
}

bool fits_on(const RunConfig& config, int world, const PlanOptions& options) {
  if (cannot_fit(config, world, options)) return false;
  return fits_memory(config, make_plan(config, world, options), options);
}

double all_tables_bytes(const RunConfig& config) {
  double bytes = 0;
  for (const TableConfig& table : config.model.tables) {
    bytes += held_bytes(config, table, table.rows, table.dim);
  }
  return bytes;
}

/// The largest number of ranks, at least `world`, that cannot fit without a look at any plan. More
/// ranks never need more memory each.
int ranks_that_cannot_fit(const RunConfig& config, int world, const PlanOptions& options) {
  int fails = world, may_fit = kMostRanks + 1;
  while (may_fit - fails > 1) {
    const int middle = fails + (may_fit - fails) / 2;
    (cannot_fit(config, middle, options) ? fails : may_fit) = middle;
  }
  return fails;
}

/// The smallest number of ranks above `world` found with which the plan fits. Doubles from the
/// number that equal ranks need, then searches back in half steps.
std::optional<int> ranks_that_fit(const RunConfig& config, int world, const PlanOptions& options) {
  int fails = ranks_that_cannot_fit(config, world, options);
  if (fails >= kMostRanks) return std::nullopt;
  int fit = fails + 1;
  while (!fits_on(config, fit, options)) {
    fails = fit;
    if (fit >= kMostRanks) return std::nullopt;
    fit = std::min(2 * fit, kMostRanks);
  }
  while (fit - fails > std::max(1, fit / 32)) {
    const int middle = fails + (fit - fails) / 2;
    (fits_on(config, middle, options) ? fit : fails) = middle;
  }
  return fit;
}

/// Names the tables that a plan cuts, the largest first.
std::string cut_tables(const RunConfig& config, const Plan& plan) {
  std::vector<std::pair<double, int>> cut;
  for (const Shard& shard : plan.shards) {
    const TableConfig& table = config.model.tables[static_cast<size_t>(shard.table)];
    const bool whole = shard.rows.size() == table.rows && shard.columns.size() == table.dim;
    const std::pair entry{-held_bytes(config, table, table.rows, table.dim), shard.table};
    if (!whole) cut.push_back(entry);
  }
  std::sort(cut.begin(), cut.end());
  cut.erase(std::unique(cut.begin(), cut.end()), cut.end());
  std::vector<std::string> names;
  for (const auto& [bytes, t] : cut) {
    if (names.size() == kNamed) {
      names.push_back(fmt::format("{} more", cut.size() - kNamed));
      break;
    }
    names.push_back(fmt::format("'{}'", config.model.tables[static_cast<size_t>(t)].name));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::string largest_tables(const RunConfig& config, const Plan& plan, int rank) {
  std::vector<std::pair<double, std::string>> held;
  for (const Shard& shard : plan.shards) {
    if (shard.rank != rank) continue;
    const TableConfig& table = config.model.tables[static_cast<size_t>(shard.table)];
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
  for (int t : plan.data_parallel) {
    const TableConfig& table = config.model.tables[static_cast<size_t>(t)];
    held.emplace_back(held_bytes(config, table, table.rows, table.dim),
                      fmt::format("'{}' (data-parallel)", table.name));
  }
  std::stable_sort(held.begin(), held.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  if (held.empty()) return "no table";
  std::vector<std::string> named;
  for (const auto& [bytes, name] : held) {
    if (named.size() == kNamed) break;
    named.push_back(fmt::format("{} {} GiB", name, gib_text(bytes)));
  }
  return fmt::format("{}", fmt::join(named, ", "));
}

std::string what_would_fit(const RunConfig& config, const Plan& plan, const PlanOptions& given) {
  PlanOptions options = given;
  options.ranks_per_node = 0;
  const bool tiers_are_open =
      config.memory.tier == MemoryTier::kAuto && config.memory.tables.empty();
  if (has_two_memories(config, options) && !tiers_are_open) {
    RunConfig tiered = config;
    tiered.memory.tier = MemoryTier::kAuto;
    tiered.memory.tables.clear();
    if (fits_on(tiered, plan.world, options)) return "memory.tier: auto, and no memory.tables";
  }
  const RunConfig automatic = with_auto(config);
  const Plan same_ranks = make_plan(automatic, plan.world, options);
  if (fits_memory(automatic, same_ranks, options)) {
    const std::string cut = cut_tables(automatic, same_ranks);
    return fmt::format("sharding.strategy: auto on {} rank{}{}{}", plan.world, plural(plan.world),
                       cut.empty() ? "" : ", which cuts ", cut);
  }
  const double per_rank =
      dense_bytes(config) + input_bytes(config, 1) + activation_bytes(config, 1);
  const double budget = device_budget(config, options);
  if (budget > 0 && per_rank > budget) {
    return fmt::format("no number of ranks: the dense part alone needs {} GiB a rank",
                       gib_text(per_rank));
  }
  const std::optional<int> ranks = ranks_that_fit(automatic, plan.world, options);
  if (ranks) return fmt::format("{} ranks with sharding.strategy: auto", *ranks);
  return fmt::format(
      "up to {} ranks nothing was found (all tables need {} GiB); a smaller "
      "train.global_batch_size, tables, or a lighter train.sparse_optimizer",
      kMostRanks, gib_text(all_tables_bytes(config)));
}

}  // namespace dlrm
