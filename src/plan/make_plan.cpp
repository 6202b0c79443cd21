#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "dlrm/core/error.h"
#include "dlrm/plan/node_sums.h"
#include "dlrm/plan/plan.h"
#include "dlrm/plan/simulate.h"

#include "bound.h"
#include "cost.h"
#include "division.h"
#include "memory.h"
#include "numbers.h"
#include "placement.h"
#include "shards.h"

namespace dlrm {
namespace {

/// The share of a rank's memory that copies of data-parallel tables may take, if `auto` chooses
/// them: so little that it never decides whether a plan fits.
constexpr double kReplicatedShare = 0.05;

std::vector<Strategy> strategies_of(const RunConfig& config) {
  const std::vector<TableConfig>& tables = config.model.tables;
  std::vector<Strategy> strategies(tables.size(), config.sharding.strategy);
  for (const auto& [name, strategy] : config.sharding.tables) {
    const auto found =
        std::find_if(tables.begin(), tables.end(),
                     [&wanted = name](const TableConfig& table) { return table.name == wanted; });
    if (found == tables.end()) throw usage_error("sharding.tables.{}: no such table", name);
    strategies[static_cast<size_t>(found - tables.begin())] = strategy;
  }
  return strategies;
}

/// Makes auto tables data-parallel, the smallest first, if copies cost less than any cut whose
/// parts are no more than the least that the heaviest rank can cost. Together they have `room`.
/// `placed`: seconds of parts that are placed already.
void choose_replicas(const RunConfig& config, const CostModel& cost, double placed, double room,
                     std::vector<Strategy>& strategies) {
  if (cost.world() == 1) return;
  TableDivisions divisions(config, cost);
  std::vector<size_t> open;
  for (size_t t = 0; t < strategies.size(); ++t) {
    const TableConfig& table = config.model.tables[t];
    if (strategies[t] == Strategy::kDataParallel) placed += cost.replica(table) * cost.world();
    if (strategies[t] != Strategy::kAuto && strategies[t] != Strategy::kTable) continue;
    const bool whole = strategies[t] == Strategy::kTable;
    divisions.add(table, whole ? MayBe::kWhole : MayBe::kCutOrCopied);
    open.push_back(t);
  }
  const std::vector<Division> cheapest =
      divisions.cheapest(divisions.least_heaviest(placed) * 1.01);
  std::vector<std::pair<double, size_t>> candidates;
  const TableMemory memory(config, cost.world());
  for (size_t i = 0; i < open.size(); ++i) {
    if (!cheapest[i].replicated) continue;
    candidates.emplace_back(memory.replica(config.model.tables[open[i]]).total(), open[i]);
  }
  std::sort(candidates.begin(), candidates.end());
  for (const auto& [bytes, t] : candidates) {
    if (bytes > room) break;
    room -= bytes;
    strategies[t] = Strategy::kDataParallel;
  }
}

/// Memory for tables: the device's, and the host's if tables may be placed there; 0: unknown.
double whole_memory(const PlanOptions& options) {
  if (options.rank_memory_bytes <= 0 || std::isinf(options.host_memory_bytes)) return 0;
  return options.rank_memory_bytes + options.host_memory_bytes;
}

bool has_fixed_cut(Strategy strategy) {
  return strategy == Strategy::kRow || strategy == Strategy::kColumn || strategy == Strategy::kGrid;
}

/// About the memory that a rank has for shards after everything else. If there is none, nothing
/// fits, and the plan is made as if memory were unknown.
double shard_room(const RunConfig& config, const Plan& plan, const PlanOptions& options) {
  if (whole_memory(options) <= 0) return 0;
  const TableMemory memory(config, plan.world);
  double room = whole_memory(options) - memory.common();
  for (const int t : plan.data_parallel) room -= memory.replica(table_of(config, t)).total();
  return std::max(room, 0.0);
}

/// Assigns one part to each rank, in order. If there are fewer parts than ranks, they go to the
/// ranks of least load.
void place_fixed(const RunConfig& config, const CostModel& cost, int t, Strategy strategy,
                 std::vector<Load>& loads, Plan& plan) {
  const TableConfig& table = table_of(config, t);
  std::vector<Shard> shards = cut_table(table, t, cut_of(strategy, table, plan.world));
  std::vector<int> ranks(loads.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return loads[static_cast<size_t>(a)].seconds < loads[static_cast<size_t>(b)].seconds;
  });
  std::sort(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(shards.size()));
  for (size_t i = 0; i < shards.size(); ++i) {
    Shard& shard = shards[i];
    shard.rank = ranks[i];
    Load& load = loads[static_cast<size_t>(shard.rank)];
    load.seconds += cost.shard(table, shard.rows.size(), shard.columns.size());
    load.bytes += cost.bytes(table, shard.rows.size(), shard.columns.size());
    plan.shards.push_back(shard);
  }
}

/// Cuts shards whose rank is a node among the ranks of this node, which take turns if a shard has
/// fewer parts.
std::vector<Shard> parts_in_nodes(const RunConfig& config, const CostModel& cost,
                                  const std::vector<Shard>& shards) {
  std::vector<Shard> parts;
  std::vector<int> next(static_cast<size_t>(cost.world()), 0);  // rank of each node
  const int on_node = cost.ranks_per_unit();
  for (const Shard& shard : shards) {
    const TableConfig& table = table_of(config, shard.table);
    int& at = next[static_cast<size_t>(shard.rank)];
    const Cut cut = cost.node_cut(table, shard.rows.size(), shard.columns.size());
    for (Shard part : cut_shard(shard, cut)) {
      part.rank = shard.rank * on_node + at;
      at = (at + 1) % on_node;
      parts.push_back(part);
    }
  }
  return parts;
}

/// Places tables on units of so many ranks: on ranks or on nodes.
Plan place_tables(const RunConfig& config, int world, const PlanOptions& options, int unit) {
  const CostModel of_ranks(config, world, options);
  const CostModel cost = of_ranks.of_nodes(unit);
  std::vector<Strategy> strategies = strategies_of(config);
  Plan plan;
  plan.world = world;
  std::vector<Load> loads(static_cast<size_t>(cost.world()));
  for (size_t t = 0; t < strategies.size(); ++t) {
    if (!has_fixed_cut(strategies[t])) continue;
    place_fixed(config, cost, static_cast<int>(t), strategies[t], loads, plan);
  }
  double seconds = 0;
  for (const Load& load : loads) seconds += load.seconds;
  const LeastMemory least = least_memory(config, world);
  const double memory = options.rank_memory_bytes > 0 ? options.rank_memory_bytes
                                                      : least.common + least.tables / world;
  choose_replicas(config, of_ranks, seconds, kReplicatedShare * memory, strategies);
  std::vector<OpenTable> open;
  for (size_t t = 0; t < strategies.size(); ++t) {
    const auto table = static_cast<int>(t);
    if (strategies[t] == Strategy::kDataParallel) plan.data_parallel.push_back(table);
    if (strategies[t] == Strategy::kAuto) open.push_back({table, MayBe::kCut});
    if (strategies[t] == Strategy::kTable) open.push_back({table, MayBe::kWhole});
  }
  const std::vector<Shard> placed =
      place(config, cost, loads, open, TableMemory(config, world).common(),
            shard_room(config, plan, options));
  for (const Shard& shard : parts_in_nodes(config, cost, placed)) plan.shards.push_back(shard);
  if (unit > 1) plan.ranks_per_node = unit;
  sort_plan(plan);
  return plan;
}

double fullest_rank(const RunConfig& config, const Plan& plan) {
  return std::ranges::max(rank_memory(config, plan), {}, &RankMemory::total).total();
}

/// Placements with less room before a plan is taken that does not fit. Each takes the time of a
/// plan, and one alone leaves plans of shipped configs over memory that have room.
constexpr int kMostTrials = 8;

/// Placement knows a rank's room only approximately. If the memory table shows that the fullest
/// rank lacks some, the tables are placed again with that much less room, as long as that helps.
Plan fitted_plan(const RunConfig& config, int world, const PlanOptions& options, int unit) {
  Plan plan = place_tables(config, world, options, unit);
  const double available = whole_memory(options);
  if (available <= 0) return plan;
  PlanOptions tighter = options;
  double needed = fullest_rank(config, plan);
  int trials = kMostTrials;
  while (trials-- > 0 && needed > available && tighter.rank_memory_bytes > needed - available) {
    tighter.rank_memory_bytes -= needed - available;
    Plan next = place_tables(config, world, tighter, unit);
    const double next_needed = fullest_rank(config, next);
    if (next_needed >= needed) break;
    plan = std::move(next);
    needed = next_needed;
  }
  return plan;
}

bool uses_host(const Plan& plan) {
  return !plan.host_replicas.empty() ||
         std::any_of(plan.shards.begin(), plan.shards.end(),
                     [](const Shard& shard) { return shard.tier == MemoryTier::kHost; });
}

/// Places tables by the room of the device, or of both memories if some tables go to the host.
Plan plan_with_tiers(const RunConfig& config, int world, const PlanOptions& options, int unit) {
  PlanOptions room = options;
  room.rank_memory_bytes = device_budget(config, options);
  room.host_memory_bytes = 0;
  Plan plan = fitted_plan(config, world, room, unit);
  choose_tiers(config, options, plan);
  if (room.rank_memory_bytes <= 0 || !uses_host(plan)) return plan;
  const double host = host_budget(config, options);
  room.host_memory_bytes = host > 0 ? host : std::numeric_limits<double>::infinity();
  Plan over_both = fitted_plan(config, world, room, unit);
  choose_tiers(config, options, over_both);
  const bool worse = fits_memory(config, plan, options) && !fits_memory(config, over_both, options);
  return worse ? plan : over_both;
}

/// Simulated seconds of a step. Those of the heaviest rank if the machine file says too little for
/// that.
double step_seconds(const RunConfig& config, const Plan& plan, const PlanOptions& options) {
  const CostModel cost(config, plan.world, options);
  const bool simulates = cost.speed().products(config.train.precision) > 0;
  return simulates ? simulate_step(config, plan, options).step : heaviest_rank(config, plan, cost);
}

/// Whether all tables may be cut among the ranks of nodes, which are full.
bool may_place_on_nodes(const RunConfig& config, int world, const PlanOptions& options) {
  const int on_node = options.ranks_per_node;
  if (options.scattered || on_node < 2 || world <= on_node || world % on_node != 0) return false;
  if (std::ranges::any_of(config.model.tables, &TableConfig::pools_max)) return false;
  const std::vector<Strategy> strategies = strategies_of(config);
  return std::all_of(strategies.begin(), strategies.end(), [](Strategy strategy) {
    return strategy == Strategy::kAuto || strategy == Strategy::kDataParallel;
  });
}

/// The best of a plan of ranks, the same with sums in nodes, and a plan of nodes: one that fits, if
/// any does, with the shortest step.
Plan best_plan(const RunConfig& config, int world, const PlanOptions& options) {
  std::vector<Plan> plans{plan_with_tiers(config, world, options, 1)};
  const int on_node = options.scattered ? 0 : options.ranks_per_node;
  if (on_node > 1 && on_node < world) {
    plans.push_back(plans.front());
    plans.back().ranks_per_node = on_node;
    if (node_sums(config.model.tables, config.routing.mode, plans.back()).empty()) plans.pop_back();
  }
  if (may_place_on_nodes(config, world, options)) {
    plans.push_back(plan_with_tiers(config, world, options, on_node));
  }
  if (plans.size() == 1) return std::move(plans.front());
  std::vector<std::pair<bool, double>> scores;
  for (const Plan& plan : plans) {
    scores.emplace_back(!fits_memory(config, plan, options), step_seconds(config, plan, options));
  }
  return std::move(plans[static_cast<size_t>(std::ranges::min_element(scores) - scores.begin())]);
}

}  // namespace

Plan make_plan(const RunConfig& given, int world, const PlanOptions& options) {
  const RunConfig config = with_known_device(given, options);
  DLRM_CHECK(world >= 1, "a plan for {} ranks", world);
  if (!config.sharding.plan.empty()) {
    Plan plan = read_plan(config.sharding.plan, config.model, world);
    choose_tiers(config, options, plan);
    return plan;
  }
  Plan plan = best_plan(config, world, options);
  check_plan(plan, config.model, "sharding");
  const std::string& machine = config.sharding.machine;
  if (!machine.empty()) plan.machine = read_machine(machine).hash;
  return plan;
}

}  // namespace dlrm
