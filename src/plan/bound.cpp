#include "bound.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "division.h"
#include "memory.h"

namespace dlrm {
namespace {

bool same_shape(const TableConfig& a, const TableConfig& b) {
  const auto same = [](const FeatureConfig& x, const FeatureConfig& y) {
    return x.hotness == y.hotness;
  };
  return a.rows == b.rows && a.dim == b.dim && a.dtype == b.dtype &&
         std::equal(a.features.begin(), a.features.end(), b.features.begin(), b.features.end(),
                    same);
}

struct Kind {
  Divisions divisions;
  const TableConfig* table;
  double count = 1;
};

std::vector<Kind> kinds_of(const ModelConfig& model, const CostModel& cost) {
  std::vector<Kind> kinds;
  for (const TableConfig& table : model.tables) {
    const auto known = std::find_if(kinds.begin(), kinds.end(), [&](const Kind& kind) {
      return same_shape(*kind.table, table);
    });
    if (known == kinds.end()) {
      kinds.push_back({Divisions(table, cost, {}), &table});
    } else {
      ++known->count;
    }
  }
  return kinds;
}

}  // namespace

double least_heaviest(const ModelConfig& model, const CostModel& cost) {
  const std::vector<Kind> kinds = kinds_of(model, cost);
  const auto possible = [&](double seconds) {
    double mean = 0;
    for (const Kind& kind : kinds) {
      const Division division = kind.divisions.cheapest(seconds);
      if (division.part > seconds) return false;
      mean += kind.count * division.total / cost.world();
    }
    return mean <= seconds;
  };
  double most = 0;
  for (const Kind& kind : kinds) most += kind.count * kind.divisions.cheapest(0).total;
  double least = 0;
  constexpr int kSteps = 24;
  // The interval shrinks by its ratio, as the bound may be far below the cost of all tables.
  for (int i = 0; i < kSteps && possible(most / 2); ++i) most /= 2;
  least = most / 2;
  for (int i = 0; i < kSteps && most - least > 1e-4 * most; ++i) {
    const double middle = least + (most - least) / 2;
    (possible(middle) ? most : least) = middle;
  }
  return least;
}

double heaviest_rank(const ModelConfig& model, const Plan& plan, const CostModel& cost) {
  double replicas = 0;
  for (const int t : plan.data_parallel)
    replicas += cost.replica(model.tables[static_cast<size_t>(t)]);
  std::vector<double> seconds(static_cast<size_t>(plan.world), replicas);
  std::map<std::pair<int, std::pair<int64_t, int64_t>>, double> known;  // by table and shape
  for (const Shard& shard : plan.shards) {
    const int64_t rows = shard.rows.size(), width = shard.columns.size();
    const auto [found, is_new] = known.try_emplace({shard.table, {rows, width}});
    if (is_new) {
      found->second = cost.shard(model.tables[static_cast<size_t>(shard.table)], rows, width);
    }
    seconds[static_cast<size_t>(shard.rank)] += found->second;
  }
  return *std::max_element(seconds.begin(), seconds.end());
}

LeastMemory least_memory(const RunConfig& config, int world) {
  const int64_t local = config.train.global_batch_size / world;
  LeastMemory least;
  least.common = dense_bytes(config) + activation_bytes(config, local) +
                 local_exchange_bytes(config, local) + library_bytes(config) +
                 input_bytes(config, local);
  // Without padding, which depends on the cut. Row-wise state is at least a float of each row.
  const double states = traits_of(config.train.sparse_optimizer.type).state_count();
  const bool rowwise = traits_of(config.train.sparse_optimizer.type).rowwise();
  for (const TableConfig& table : config.model.tables) {
    if (config.memory.tier_of(table.name) == MemoryTier::kCached) continue;
    const auto rows = static_cast<double>(table.rows), dim = static_cast<double>(table.dim);
    least.tables += rows * (dim * static_cast<double>(size_of(table.dtype)) +
                            4.0 * states * (rowwise ? 1.0 : dim));
  }
  return least;
}

PlanRatios plan_ratios(const RunConfig& config, const Plan& plan, const PlanOptions& options) {
  const CostModel cost(config, plan.world, options);
  double fullest = 0;
  for (const RankMemory& rank : rank_memory(config, plan)) {
    fullest = std::max(fullest, rank.total() + rank.host_total());
  }
  const LeastMemory least = least_memory(config, plan.world);
  return {heaviest_rank(config.model, plan, cost) / least_heaviest(config.model, cost),
          fullest / (least.common + least.tables / plan.world)};
}

}  // namespace dlrm
