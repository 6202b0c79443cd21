#include "dlrm/plan/routed_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "dlrm/plan/id_exchange.h"
#include "dlrm/plan/simulate.h"
#include "dlrm/plan/traffic.h"

#include "bound.h"
#include "cost.h"
#include "memory.h"
#include "numbers.h"

namespace dlrm {
namespace {

/// *Fixed* may return this share more vectors, of bags that have no id in a shard.
constexpr double kMostEmpty = 1.0 / 16;
/// Ranks for which more than one choice is considered. Each takes the time of a plan.
constexpr int kMostCompared = 128;

// What is assumed where no machine file says it.

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
  const std::vector<char> sharded = sharded_tables(tables, plan);
  double ids = 0, floats = 0, more = 0;
  for (size_t t = 0; t < tables.size(); ++t) {
    if (!sharded[t]) continue;
    ids += hotness_of(tables[t]);
    floats += real(tables[t].dim) * real(tables[t].features.size());
  }
  for (const Shard& shard : plan.shards) {
    const TableConfig& table = tables[static_cast<size_t>(shard.table)];
    const double returned = expected_vectors(RoutingMode::kExact, table, shard.rows);
    more += (real(table.features.size()) - returned) * real(shard.columns.size());
  }
  const double id_bytes = plan.world * ids * real(id_bytes_of(tables, plan));
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
  const double cores = config.train.threads > 0 ? config.train.threads : kCores;
  const int64_t samples = largest_part(config.train.global_batch_size, plan.world);
  return ids_of_hosts(config, plan) * real(samples) * kRouteId / cores;
}

/// Of a step: simulated, or if the machine file says too little for that, the longer one of the
/// hosts' time for ids and the heaviest rank's for its tables.
double seconds_with_hosts(const RunConfig& config, const Plan& plan, const PlanOptions& options) {
  if (simulates_hosts(config)) return simulate_step(config, plan, options).step;
  const CostModel cost(config, plan.world, options);
  const double rate = cost.speed().gpu ? 1 : cost.speed().memory / kGpuMemory;
  return std::max(rate * heaviest_rank(config, plan, cost), host_seconds(config, plan));
}

bool are_on_node(const RunConfig& config, int world, const PlanOptions& options) {
  if (options.ranks_per_node > 0) return world <= options.ranks_per_node;
  const std::string& machine = config.sharding.machine;
  return !machine.empty() && world <= read_machine(machine).speed.ranks_per_node;
}

/// A plan and the config of its run, whose mode is not auto.
struct Choice {
  RunConfig config;
  Plan plan;
  bool fits = true;
  double step = 0;  ///< seconds

  bool is_fixed() const { return config.routing.mode == RoutingMode::kFixed; }
};

RoutedPlan routed(const Choice& choice, const std::string& reason) {
  return {choice.plan, choice.config.routing.mode,
          fmt::format("routing.mode: auto is {} ({})\n", choice.is_fixed() ? "fixed" : "exact",
                      reason)};
}

/// The first choice that fits, or a later one whose step is shorter by more than a little. The
/// first one if none fits.
const Choice& best_of(const std::vector<Choice>& choices) {
  const Choice* best = &choices.front();
  for (const Choice& choice : choices) {
    const bool better = !best->fits || choice.step < (1 - kLittle) * best->step;
    if (choice.fits && better) best = &choice;
  }
  return *best;
}

}  // namespace

RoutedPlan make_routed_plan(const RunConfig& given, int world, const PlanOptions& options,
                            const std::optional<Plan>& kept) {
  const RunConfig config = with_known_device(given, options);
  const Plan plan = kept ? *kept : make_plan(config, world, options);
  if (config.routing.mode != RoutingMode::kAuto) return {plan, config.routing.mode};
  if (!devices_may_exchange_ids(config, world) || config.model.weighted()) {
    return {plan, RoutingMode::kExact};
  }
  const RunConfig fixed = with_mode(config, RoutingMode::kFixed);
  const bool on_node = are_on_node(config, world, options);
  const bool compares = on_node && world <= kMostCompared;
  std::vector<Choice> choices{{with_mode(config, RoutingMode::kExact), plan}};
  if (compares && !kept) choices.push_back({fixed, make_plan(fixed, world, options)});
  choices.push_back({fixed, plan});
  std::erase_if(choices, [](const Choice& choice) {
    return choice.is_fixed() && !devices_exchange_ids(choice.config, choice.plan);
  });
  if (choices.size() == 1) return {plan, RoutingMode::kExact};
  double fixed_step = std::numeric_limits<double>::infinity();
  for (Choice& choice : choices) {
    choice.fits = fits_memory(choice.config, choice.plan, options);
    if (compares) choice.step = seconds_with_hosts(choice.config, choice.plan, options);
    if (choice.is_fixed() && choice.fits) fixed_step = std::min(fixed_step, choice.step);
  }
  const double exact_step = choices.front().step;
  const Choice& last = choices.back();
  const bool prefers_fixed =
      last.plan == plan && last.fits && sends_few_more(config.model.tables, plan, on_node);
  if (prefers_fixed) std::ranges::reverse(choices);
  if (!compares) {
    return routed(choices.front(),
                  prefers_fixed ? "sends few bytes more" : "fixed sends more, or does not fit");
  }
  return routed(best_of(choices),
                std::isinf(fixed_step)
                    ? "fixed does not fit"
                    : fmt::format("{} steps: fixed {:.3f} ms, exact {:.3f} ms",
                                  simulates_hosts(config) ? "simulated" : "estimated",
                                  1e3 * fixed_step, 1e3 * exact_step));
}

}  // namespace dlrm
