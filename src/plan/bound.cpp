#include "bound.h"

#include <algorithm>
#include <vector>

#include "dlrm/plan/node_sums.h"
#include "dlrm/plan/traffic.h"

#include "division.h"
#include "memory.h"
#include "numbers.h"

namespace dlrm {
double least_heaviest(const RunConfig& config, const CostModel& cost) {
  TableDivisions divisions(config, cost);
  for (const TableConfig& table : config.model.tables) divisions.add(table, MayBe::kCutOrCopied);
  return divisions.least_heaviest(0);
}

double heaviest_rank(const RunConfig& config, const Plan& plan, const CostModel& cost) {
  const std::vector<TableConfig>& tables = config.model.tables;
  double replicas = 0;
  for (const int t : plan.data_parallel) replicas += cost.replica(tables[static_cast<size_t>(t)]);
  std::vector<double> seconds(static_cast<size_t>(plan.world), replicas);
  for (const Shard& shard : plan.shards) {
    seconds[static_cast<size_t>(shard.rank)] +=
        cost.shard(table_of(config, shard.table), shard.rows.size(), shard.columns.size());
  }
  const std::vector<NodeSum> sums = node_sums(tables, config.routing.mode, plan);
  for (const NodeSum& sum : sums) {
    const TableConfig& table = tables[static_cast<size_t>(sum.table)];
    for (size_t i = 0; i < sum.shards.size(); ++i) {
      const double vectors = expected_vectors(config.routing.mode, table, sum.shards[i].rows);
      const double spared =
          cost.spared_by_sum(table, vectors, sum.columns.size(),
                             static_cast<int>(sum.shards.size()), plan.ranks_per_node);
      seconds[static_cast<size_t>(sum.shards[i].rank)] -= spared;
    }
  }
  return std::ranges::max(seconds) + (sums.empty() ? 0 : cost.exchanges_of_sums());
}

LeastMemory least_memory(const RunConfig& config, int world) {
  const int64_t batch = config.train.global_batch_size, local = batch / world;
  LeastMemory least;
  least.common = common_memory(config, local).total();
  // Without padding, which depends on the cut. Row-wise state is at least a float of each row.
  const OptimizerTraits& traits = traits_of(config.train.sparse_optimizer.type);
  const double states = traits.state_count();
  const TableMemory memory(config, world);
  for (const TableConfig& table : config.model.tables) {
    if (config.memory.tier_of(table.name) == MemoryTier::kCached) continue;
    const auto rows = real(table.rows), dim = real(table.dim);
    const double held =
        rows * (dim * real(size_of(table.dtype)) + 4.0 * states * (traits.rowwise() ? 1.0 : dim));
    // Vectors of an odd width may be longer.
    const Shard whole{0, {0, table.rows}, {0, table.dim / 2 * 2}};
    const double vectors = world > 1 ? memory.owned_vectors(table, whole) +
                                           world * memory.received_vectors(table, whole, local)
                                     : 0;
    const double copies = world * (held + memory.replicated_gradients(table));
    least.tables +=
        std::min(held + vectors, copies) + memory.routed(table, table.rows, batch, world);
  }
  return least;
}

namespace {

/// Over the least of plans of ranks, without sums, or of nodes, with sums.
double cost_ratio(const RunConfig& config, const Plan& plan, const CostModel& cost) {
  const double of_ranks = least_heaviest(config, cost);
  if (plan.ranks_per_node == 0) return heaviest_rank(config, plan, cost) / of_ranks;
  Plan without = plan;
  without.ranks_per_node = 0;
  double least = of_ranks;
  if (plan.world % plan.ranks_per_node == 0) {
    least = std::min(least, least_heaviest(config, cost.of_nodes(plan.ranks_per_node)) +
                                cost.exchanges_of_sums());
  }
  return std::min(heaviest_rank(config, without, cost) / of_ranks,
                  heaviest_rank(config, plan, cost) / least);
}

}  // namespace

PlanRatios plan_ratios(const RunConfig& config, const Plan& plan, const PlanOptions& options) {
  const CostModel cost(config, plan.world, options);
  double fullest = 0;
  for (const RankMemory& rank : rank_memory(config, plan)) {
    const double caches = rank.cache + rank.host_cache;
    fullest = std::max(fullest, rank.total() + rank.host_total() - caches);
  }
  const LeastMemory least = least_memory(config, plan.world);
  return {cost_ratio(config, plan, cost), fullest / (least.common + least.tables / plan.world)};
}

}  // namespace dlrm
