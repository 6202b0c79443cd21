#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "dlrm/core/error.h"
#include "dlrm/plan/plan.h"
#include "dlrm/plan/simulate.h"

#include "bound.h"
#include "cost.h"
#include "division.h"
#include "memory.h"
#include "node_parts.h"
#include "node_plan.h"
#include "placement.h"
#include "shards.h"

namespace dlrm {
namespace {

/// Limits of data-parallel tables chosen by `auto`: the size of one, and the share of a rank's
/// memory for all.
constexpr double kLargestReplica = 64.0 * 1024 * 1024;
constexpr double kReplicatedShare = 0.05;
/// Parts with fewer columns than kNarrowestColumns must lower the least seconds of the heaviest
/// rank to this share.
constexpr double kWorthNarrower = 0.995;
/// A plan is better if its step times this root of the fullest rank's bytes is shorter.
constexpr double kBytesMatter = 1.0 / 6;
/// Plans are not considered whose heaviest rank is heavier than this multiple of another plan's.
constexpr double kMostHeavier = 1.1;
/// A plan of nodes must have at most this share of the step of one of ranks, and less if that is
/// not simulated.
constexpr double kWorthNodes = 0.98;
constexpr double kMuchLighter = 0.95;
/// Ranks for which two plans of ranks, and three of nodes, are made and simulated.
constexpr int kMostWithMorePlans = 1024;

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

double replica_bytes(const RunConfig& config, const TableConfig& table) {
  return row_bytes(table, table.rows, table.dim) +
         state_bytes(config.train.sparse_optimizer.type, table.rows, table.dim);
}

/// All memory that a rank needs for a replica.
double replica_memory(const RunConfig& config, const TableConfig& table, int world) {
  const int64_t local = largest_part(config.train.global_batch_size, world);
  return replica_bytes(config, table) + replicated_gradient_bytes(config, table, world) +
         routed_bytes(config, table, table.rows, local, 1);
}

/// The seconds of all ranks together for a table of a fixed strategy.
double fixed_seconds(const TableConfig& table, const CostModel& cost, Strategy strategy) {
  if (strategy == Strategy::kDataParallel) return cost.replica(table) * cost.world();
  double seconds = 0;
  for (const Shard& shard : cut_table(table, 0, cut_of(strategy, table, cost.world()))) {
    seconds += cost.shard(table, shard.rows.size(), shard.columns.size());
  }
  return seconds;
}

/// Fewest columns of a part. On many ranks with few samples each, a table of few rows may cost more
/// than the mean of the ranks unless its columns are divided further.
int64_t narrowest_columns(const RunConfig& config, const CostModel& cost,
                          const std::vector<Strategy>& strategies) {
  const auto least = [&](int64_t narrowest) {
    TableDivisions divisions(config, cost);
    double fixed = 0;
    for (size_t t = 0; t < strategies.size(); ++t) {
      const TableConfig& table = config.model.tables[t];
      if (strategies[t] == Strategy::kAuto) {
        divisions.add(table, {narrowest, kLargestReplica});
      } else {
        fixed += fixed_seconds(table, cost, strategies[t]);
      }
    }
    return divisions.least_heaviest(fixed);
  };
  const double best = least(1);
  int64_t narrowest = kNarrowestColumns;
  while (narrowest > 1 && best < kWorthNarrower * least(narrowest)) narrowest /= 2;
  return narrowest;
}

/// Makes auto tables data-parallel, the smallest first, if copies cost less than any cut whose
/// parts are no more than the least that the heaviest rank can cost.
void choose_replicas(const RunConfig& config, const CostModel& cost, const PlanOptions& options,
                     int64_t narrowest, std::vector<Strategy>& strategies) {
  if (cost.world() == 1) return;
  TableDivisions divisions(config, cost);
  std::vector<size_t> open;
  double fixed = 0;
  for (size_t t = 0; t < strategies.size(); ++t) {
    const TableConfig& table = config.model.tables[t];
    if (strategies[t] == Strategy::kAuto) {
      divisions.add(table, {narrowest, kLargestReplica});
      open.push_back(t);
    } else {
      fixed += fixed_seconds(table, cost, strategies[t]);
    }
  }
  const std::vector<Division> cheapest = divisions.cheapest(divisions.least_heaviest(fixed) * 1.01);
  std::vector<std::pair<double, size_t>> candidates;
  for (size_t i = 0; i < open.size(); ++i) {
    if (!cheapest[i].replicated) continue;
    candidates.emplace_back(replica_bytes(config, config.model.tables[open[i]]), open[i]);
  }
  std::sort(candidates.begin(), candidates.end());
  double room = options.rank_memory_bytes > 0 ? kReplicatedShare * options.rank_memory_bytes
                                              : std::numeric_limits<double>::infinity();
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

/// The memory that a rank has for shards after everything else. If there is none, nothing fits, and
/// the plan is made as if memory were unknown.
double shard_room(const RunConfig& config, const Plan& plan, const PlanOptions& options,
                  const CostModel& cost, const std::vector<Strategy>& strategies) {
  if (whole_memory(options) <= 0) return 0;
  const int64_t batch = config.train.global_batch_size;
  const int64_t local = largest_part(batch, plan.world);
  double room = whole_memory(options) - common_bytes(config, plan.world, batch / plan.world) -
                cost.checkpoint_bytes();
  for (size_t t = 0; t < strategies.size(); ++t) {
    const TableConfig& table = config.model.tables[t];
    if (!has_fixed_cut(strategies[t]) || cut_of(strategies[t], table, plan.world).rows < 2)
      continue;
    room -= row_sum_bytes(config, table, local);
  }
  for (int t : plan.data_parallel) {
    room -= replica_memory(config, config.model.tables[static_cast<size_t>(t)], plan.world);
  }
  return std::max(room, 0.0);
}

/// Assigns one part to each rank, in order. If there are fewer parts than ranks, they go to the
/// ranks of least load.
void place_fixed(const RunConfig& config, const CostModel& cost, int t, Strategy strategy,
                 Balance& balance, Plan& plan) {
  const TableConfig& table = config.model.tables[static_cast<size_t>(t)];
  std::vector<Shard> shards = cut_table(table, t, cut_of(strategy, table, plan.world));
  const std::vector<int> ranks = balance.lightest(static_cast<int>(shards.size()));
  for (size_t i = 0; i < shards.size(); ++i) {
    Shard& shard = shards[i];
    shard.rank = ranks[i];
    const int64_t rows = shard.rows.size();
    const int64_t width = shard.columns.size();
    balance.add(shard.rank, cost.shard(table, rows, width), cost.bytes(table, rows, width));
    plan.shards.push_back(shard);
  }
}

/// If the batch is no multiple of the ranks, some have a sample more, and less room for shards.
void add_samples(const RunConfig& config, int world, int ranks_per_unit, Balance& balance) {
  const int64_t batch = config.train.global_batch_size, few = batch / world;
  if (batch % world == 0) return;
  const double more = common_bytes(config, world, few + 1) - common_bytes(config, world, few);
  for (int unit = 0; unit < balance.world(); ++unit) {
    const Range ranks = {unit * ranks_per_unit, (unit + 1) * ranks_per_unit};
    const bool any = (batch * ranks.end / world - batch * ranks.begin / world) > few * ranks.size();
    if (any) balance.add(unit, 0, more);
  }
}

/// On what tables are placed, and how.
struct Units {
  int ranks = 1;  ///< of a unit, which is a rank or a node
  Evenness evenness = Evenness::kMuch;
};

/// Places tables on units.
Plan place_tables(const RunConfig& config, int world, const PlanOptions& options, Units units) {
  const CostModel of_ranks(config, world, options);
  const CostModel cost = of_ranks.of_nodes(units.ranks);
  std::vector<Strategy> strategies = strategies_of(config);
  const int64_t narrowest = narrowest_columns(config, of_ranks, strategies);
  choose_replicas(config, of_ranks, options, narrowest, strategies);

  Plan plan;
  plan.world = world;
  std::vector<int> placed;
  std::vector<char> may_cut;
  for (size_t t = 0; t < strategies.size(); ++t) {
    if (strategies[t] == Strategy::kDataParallel) plan.data_parallel.push_back(static_cast<int>(t));
    if (strategies[t] != Strategy::kAuto && strategies[t] != Strategy::kTable) continue;
    placed.push_back(static_cast<int>(t));
    may_cut.push_back(strategies[t] == Strategy::kAuto ? 1 : 0);
  }
  Balance balance(cost.world(), shard_room(config, plan, options, cost, strategies));
  add_samples(config, world, units.ranks, balance);
  for (size_t t = 0; t < strategies.size(); ++t) {
    if (!has_fixed_cut(strategies[t])) continue;
    place_fixed(config, cost, static_cast<int>(t), strategies[t], balance, plan);
  }
  Placement placement(config, cost, balance, std::move(placed), std::move(may_cut), narrowest,
                      units.evenness);
  for (const Shard& shard : parts_in_nodes(config, cost, units.ranks, placement.shards())) {
    plan.shards.push_back(shard);
  }
  sort_plan(plan);
  return plan;
}

double fullest_rank(const RunConfig& config, const Plan& plan) {
  double most = 0;
  for (const RankMemory& memory : rank_memory(config, plan)) most = std::max(most, memory.total());
  return most;
}

/// Placement knows a rank's room only approximately, since each row shard of a table has its own
/// messages. If the memory table shows that the fullest rank lacks less than a tenth, the tables
/// are placed again with that much less room.
Plan fitted_plan(const RunConfig& config, int world, const PlanOptions& options, Units units) {
  Plan plan = place_tables(config, world, options, units);
  const double available = whole_memory(options);
  if (available <= 0) return plan;
  PlanOptions tighter = options;
  double needed = fullest_rank(config, plan);
  for (int trial = 0; trial < 4 && needed > available && needed < 1.1 * available; ++trial) {
    tighter.rank_memory_bytes -= 1.5 * (needed - available);
    Plan next = place_tables(config, world, tighter, units);
    const double next_needed = fullest_rank(config, next);
    if (next_needed >= needed) continue;
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
Plan plan_with_tiers(const RunConfig& config, int world, const PlanOptions& options, Units units) {
  PlanOptions room = options;
  room.rank_memory_bytes = device_budget(config, options);
  room.host_memory_bytes = 0;
  Plan plan = fitted_plan(config, world, room, units);
  choose_tiers(config, options, plan);
  if (room.rank_memory_bytes <= 0 || !uses_host(plan)) return plan;
  const double host = host_budget(config, options);
  room.host_memory_bytes = host > 0 ? host : std::numeric_limits<double>::infinity();
  Plan over_both = fitted_plan(config, world, room, units);
  choose_tiers(config, options, over_both);
  const bool worse = fits_memory(config, plan, options) && !fits_memory(config, over_both, options);
  return worse ? plan : over_both;
}

bool has_simulation(const RunConfig& config) {
  const std::string& machine = config.sharding.machine;
  return !machine.empty() && read_machine(machine).speed.products(config.train.precision) > 0;
}

/// Simulated seconds of a step. Those of the heaviest rank if the machine file says too little for
/// that.
double step_seconds(const RunConfig& config, const Plan& plan, const PlanOptions& options) {
  if (has_simulation(config)) return simulate_step(config, plan, options).step;
  return heaviest_rank(config, plan, CostModel(config, plan.world, options));
}

/// Tables that are cut over all ranks stay in the order of ranks.
void sum_in_nodes(const RunConfig& config, const PlanOptions& options, Plan& plan) {
  if (options.scattered) return;
  const std::vector<Strategy> strategies = strategies_of(config);
  const bool may_move = std::none_of(strategies.begin(), strategies.end(), has_fixed_cut);
  Plan with_sums = plan;
  plan_nodes(config, CostModel(config, plan.world, options), options.ranks_per_node, may_move,
             with_sums);
  if (with_sums == plan) return;
  if (step_seconds(config, with_sums, options) >= step_seconds(config, plan, options)) return;
  // Sums need some more memory.
  const bool fits = fits_memory(config, with_sums, options);
  if (fits || !fits_memory(config, plan, options)) plan = std::move(with_sums);
}

/// Whether all tables may be cut among the ranks of nodes, which are full.
bool may_place_on_nodes(const RunConfig& config, int world, const PlanOptions& options) {
  const int on_node = options.ranks_per_node;
  if (options.scattered || on_node < 2 || world <= on_node || world % on_node != 0) return false;
  const std::vector<Strategy> strategies = strategies_of(config);
  return std::all_of(strategies.begin(), strategies.end(), [](Strategy strategy) {
    return strategy == Strategy::kAuto || strategy == Strategy::kDataParallel;
  });
}

Plan plan_of(const RunConfig& config, int world, const PlanOptions& options, Units units) {
  Plan plan = plan_with_tiers(config, world, options, units);
  if (units.ranks > 1) {
    plan.ranks_per_node = units.ranks;
  } else {
    sum_in_nodes(config, options, plan);
  }
  return plan;
}

struct Candidate {
  Plan plan;
  double heaviest = 0;  ///< seconds of the heaviest rank
  double worth = 1;     ///< the share of another plan's step that this one must have
  double score = 0;
};

/// Plans of ranks and, if that is possible, of nodes. If steps can be simulated, bytes matter less
/// in the first of each, and most in the last of nodes, which must have a less full rank than the
/// one before. These are left out for many ranks, because each plan takes time.
std::vector<Candidate> candidates(const RunConfig& config, int world, const PlanOptions& options) {
  const bool simulated = has_simulation(config);
  const CostModel cost(config, world, options);
  std::vector<Candidate> found;
  for (const int ranks : {1, options.ranks_per_node}) {
    if (ranks != 1 && !may_place_on_nodes(config, world, options)) continue;
    const double worth = ranks == 1 ? 1 : simulated ? kWorthNodes : kMuchLighter;
    for (const Evenness evenness : {Evenness::kLittle, Evenness::kMuch, Evenness::kMost}) {
      if (evenness != Evenness::kMuch && (!simulated || world > kMostWithMorePlans)) continue;
      const bool evenest = evenness == Evenness::kMost;
      if (evenest && ranks == 1) continue;
      Plan plan = plan_of(config, world, options, {ranks, evenness});
      if (evenest && fullest_rank(config, plan) >= fullest_rank(config, found.back().plan))
        continue;
      const double heaviest = heaviest_rank(config, plan, cost);
      found.push_back({std::move(plan), heaviest, worth});
    }
  }
  return found;
}

/// Of the plans that fit, if there are any, and whose heaviest rank is light, the one with the
/// least product of the step and a root of the fullest rank's bytes.
Plan best_plan(const RunConfig& config, int world, const PlanOptions& options) {
  std::vector<Candidate> plans = candidates(config, world, options);
  const auto fits = [&](const Candidate& c) { return fits_memory(config, c.plan, options); };
  if (std::any_of(plans.begin(), plans.end(), fits)) std::erase_if(plans, std::not_fn(fits));
  const auto lighter = [](const Candidate& a, const Candidate& b) {
    return a.heaviest < b.heaviest;
  };
  const double most =
      kMostHeavier * std::min_element(plans.begin(), plans.end(), lighter)->heaviest;
  std::erase_if(plans, [&](const Candidate& c) { return c.heaviest > most; });
  if (plans.size() == 1) return std::move(plans.front().plan);
  for (Candidate& c : plans) {
    const double step = step_seconds(config, c.plan, options);
    c.score = step / c.worth * std::pow(fullest_rank(config, c.plan), kBytesMatter);
  }
  const auto better = [](const Candidate& a, const Candidate& b) { return a.score < b.score; };
  return std::move(std::min_element(plans.begin(), plans.end(), better)->plan);
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
