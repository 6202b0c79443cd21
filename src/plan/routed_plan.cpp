#include "dlrm/plan/routed_plan.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "dlrm/plan/id_exchange.h"
#include "dlrm/plan/simulate.h"
#include "dlrm/plan/traffic.h"
#include "dlrm/wire/message_bytes.h"

#include "bound.h"
#include "cost.h"
#include "memory.h"

namespace dlrm {
namespace {

/// More vectors of empty bags than this share of all would make the plan's ranks less even.
constexpr double kMostEmpty = 1.0 / 16;
/// Another choice than the simple one must have at most this share of its step.
constexpr double kWorthChange = 0.97;
/// Ranks for which more than one choice is considered. Each takes the time of a plan.
constexpr int kMostCompared = 128;

// What is assumed where no machine file says it.

/// A plan for *fixed* must cost its heaviest rank no more than this multiple.
constexpr double kMostHeavier = 1.1;
/// Bytes/s of a GPU's memory: an A100 of 40 GB. A faster GPU waits longer for its host.
constexpr double kGpuMemory = 1.5e12;
/// Seconds of a core of the host for an id, and cores of a rank (docs/decisions.md).
constexpr double kRouteId = 9.5e-9;
constexpr double kCores = 16;

RunConfig with_mode(RunConfig config, RoutingMode mode) {
  config.routing.mode = mode;
  return config;
}

/// Compares, per sample of a rank, the vectors of empty bags of row shards with the vectors of all
/// sharded features in fp32, and unless all ranks are known to be on a node, the ids of all ranks
/// with these. Within a node ids take less time than their routing on the host: of 8 H200, 9 ps for
/// each rank that receives one, instead of 0.7 ns.
bool sends_few_more(const std::vector<TableConfig>& tables, const Plan& plan, bool on_node) {
  std::vector<char> sharded(tables.size(), 0);
  for (const Shard& shard : plan.shards) sharded[static_cast<size_t>(shard.table)] = 1;
  double ids = 0, floats = 0, more = 0;
  int64_t most_rows = 0;
  for (size_t t = 0; t < tables.size(); ++t) {
    if (!sharded[t]) continue;
    ids += hotness_of(tables[t]);
    floats += static_cast<double>(tables[t].dim) * static_cast<double>(tables[t].features.size());
    most_rows = std::max(most_rows, tables[t].rows);
  }
  for (const Shard& shard : plan.shards) {
    const TableConfig& table = tables[static_cast<size_t>(shard.table)];
    const double returned = expected_vectors(RoutingMode::kExact, table, shard.rows);
    more += (static_cast<double>(table.features.size()) - returned) *
            static_cast<double>(shard.columns.size());
  }
  const double id_bytes = plan.world * ids * static_cast<double>(wire_id_bytes(most_rows));
  return more <= kMostEmpty * floats && (on_node || id_bytes <= floats * sizeof(float));
}

/// Whether steps can be simulated with what hosts do for ids.
bool simulates_hosts(const RunConfig& config) {
  if (config.sharding.machine.empty()) return false;
  const MachineSpeed speed = read_machine(config.sharding.machine).speed;
  const bool threads = speed.processors > 0 || config.train.threads > 0;
  return speed.gpu && speed.route_id > 0 && threads && speed.products(config.train.precision) > 0;
}

/// Seconds of a rank's host for the ids that devices do not exchange.
double host_seconds(const RunConfig& config, const Plan& plan) {
  double ids = config.model.lookups_per_sample();
  if (devices_exchange_ids(config, plan)) {
    ids = 0;
    for (const int t : plan.data_parallel) {
      ids += hotness_of(config.model.tables[static_cast<size_t>(t)]);
    }
  }
  const double cores = config.train.threads > 0 ? config.train.threads : kCores;
  const int64_t samples = largest_part(config.train.global_batch_size, plan.world);
  return ids * static_cast<double>(samples) * kRouteId / cores;
}

/// Seconds of the heaviest rank's GPU for its tables.
double table_seconds(const RunConfig& config, const Plan& plan, const PlanOptions& options) {
  const CostModel cost(config, plan.world, options);
  const double rate = cost.speed().gpu ? 1 : cost.speed().memory / kGpuMemory;
  return rate * heaviest_rank(config, plan, cost);
}

bool are_on_node(const RunConfig& config, int world, const PlanOptions& options) {
  if (options.ranks_per_node > 0) return world <= options.ranks_per_node;
  const std::string& machine = config.sharding.machine;
  return !machine.empty() && world <= read_machine(machine).speed.ranks_per_node;
}

/// Whether *fixed* suits a plan whatever else there is.
bool suits_fixed(const RunConfig& fixed, const Plan& plan, const PlanOptions& options) {
  return devices_exchange_ids(fixed, plan) &&
         sends_few_more(fixed.model.tables, plan, are_on_node(fixed, plan.world, options)) &&
         fits_memory(fixed, plan, options);
}

std::string line(RoutingMode mode, const std::string& reason) {
  const char* const name = mode == RoutingMode::kFixed ? "fixed" : "exact";
  return fmt::format("routing.mode: auto is {} ({})\n", name, reason);
}

/// A plan and the config of its run, whose mode is not auto.
struct Choice {
  const RunConfig& config;
  const Plan& plan;
  double step = 0;  ///< seconds
  bool fits = true;
};

/// `simple`, or a choice that fits and whose step is shorter by more than a little.
const Choice& best_of(const std::vector<Choice>& choices, const Choice& simple) {
  const Choice* best = &simple;
  for (const Choice& choice : choices) {
    const bool better = !best->fits || choice.step < kWorthChange * best->step;
    if (choice.fits && better) best = &choice;
  }
  return *best;
}

/// `choices`: the first one is *exact*, the others are *fixed*.
std::string simulated_steps(const std::vector<Choice>& choices) {
  const Choice* fixed = nullptr;
  for (const Choice& choice : choices) {
    if (&choice == &choices.front() || !choice.fits) continue;
    if (fixed == nullptr || choice.step < fixed->step) fixed = &choice;
  }
  if (fixed == nullptr) return "fixed does not fit";
  return fmt::format("simulated steps: fixed {:.3f} ms, exact {:.3f} ms", 1e3 * fixed->step,
                     1e3 * choices.front().step);
}

/// The best of all modes of `plan` and of *fixed* with `other`, by simulated steps.
RoutedPlan simulated_choice(const RunConfig& exact, const RunConfig& fixed, const Plan& plan,
                            const std::optional<Plan>& other, const PlanOptions& options) {
  // Of *fixed* with either plan, the one made for it is taken if steps hardly differ.
  std::vector<Choice> choices{{exact, plan}};
  if (other && devices_exchange_ids(fixed, *other)) choices.push_back({fixed, *other});
  if (devices_exchange_ids(fixed, plan)) choices.push_back({fixed, plan});
  for (Choice& choice : choices) {
    choice.step = simulate_step(choice.config, choice.plan, options).step;
    choice.fits = fits_memory(choice.config, choice.plan, options);
  }
  const bool suits = suits_fixed(fixed, plan, options);
  const Choice& best = best_of(choices, suits ? choices.back() : choices.front());
  const RoutingMode mode = best.config.routing.mode;
  return {best.plan, mode, line(mode, simulated_steps(choices))};
}

/// Whether *fixed* with plan `other` costs little more than *exact* with `plan`, and hosts would
/// need longer for the ids of *exact* than that.
bool hosts_are_slower(const RunConfig& exact, const Plan& plan, const RunConfig& fixed,
                      const Plan& other, const PlanOptions& options) {
  const double before = table_seconds(exact, plan, options);
  const double after = table_seconds(fixed, other, options);
  return after <= kMostHeavier * before &&
         std::max(after, host_seconds(fixed, other)) < kWorthChange * host_seconds(exact, plan);
}

/// The lighter one of the plans with which *fixed* spares time, by the cost model. Null if there is
/// none. A resumed run, which has only its own plan, says the same of it.
const Plan* estimated_choice(const RunConfig& exact, const RunConfig& fixed, const Plan& plan,
                             const std::optional<Plan>& other, const PlanOptions& options) {
  const Plan* best = nullptr;
  for (const Plan* each : {&plan, other ? &*other : &plan}) {
    const bool pays = devices_exchange_ids(fixed, *each) && fits_memory(fixed, *each, options) &&
                      hosts_are_slower(exact, plan, fixed, *each, options) &&
                      hosts_are_slower(exact, *each, fixed, *each, options);
    if (!pays) continue;
    const bool lighter = best == nullptr || table_seconds(fixed, *each, options) <
                                                table_seconds(fixed, *best, options);
    if (lighter) best = each;
  }
  return best;
}

}  // namespace

RoutedPlan make_routed_plan(const RunConfig& given, int world, const PlanOptions& options,
                            const std::optional<Plan>& kept) {
  const RunConfig config = with_known_device(given, options);
  const Plan plan = kept ? *kept : make_plan(config, world, options);
  if (config.routing.mode != RoutingMode::kAuto) return {plan, config.routing.mode};
  if (!devices_may_exchange_ids(config, world)) return {plan, RoutingMode::kExact};
  const RunConfig exact = with_mode(config, RoutingMode::kExact);
  const RunConfig fixed = with_mode(config, RoutingMode::kFixed);
  std::optional<Plan> other;
  const bool compares = are_on_node(config, world, options) && world <= kMostCompared;
  if (compares && !kept) other = make_plan(fixed, world, options);
  const bool possible =
      devices_exchange_ids(fixed, plan) || (other && devices_exchange_ids(fixed, *other));
  if (!possible) return {plan, RoutingMode::kExact};
  if (compares && simulates_hosts(config)) {
    return simulated_choice(exact, fixed, plan, other, options);
  }
  if (suits_fixed(fixed, plan, options)) {
    return {plan, RoutingMode::kFixed, line(RoutingMode::kFixed, "sends few bytes more")};
  }
  const Plan* const best =
      compares ? estimated_choice(exact, fixed, plan, other, options) : nullptr;
  if (best != nullptr) {
    return {*best, RoutingMode::kFixed, line(RoutingMode::kFixed, "hosts would take longer")};
  }
  return {plan, RoutingMode::kExact,
          line(RoutingMode::kExact, "fixed sends more, or does not fit")};
}

}  // namespace dlrm
