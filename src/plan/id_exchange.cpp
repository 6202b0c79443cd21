#include "dlrm/plan/id_exchange.h"

#include <algorithm>

#include "dlrm/plan/traffic.h"

#include "memory.h"
#include "numbers.h"

namespace dlrm {
namespace {

/// How the shards of a table cut it.
struct Cuts {
  bool rows = false, columns = false;
};

}  // namespace

bool devices_exchange_ids(const std::vector<TableConfig>& tables, RoutingMode mode,
                          const OptimizerConfig& optimizer, const Plan& plan) {
  if (mode != RoutingMode::kFixed) return false;
  if (std::ranges::any_of(tables, &TableConfig::weighted)) return false;
  std::vector<Cuts> cuts(tables.size());
  bool cuts_rows = false;
  for (const Shard& shard : plan.shards) {
    const TableConfig& table = tables[static_cast<size_t>(shard.table)];
    if (shard.tier == MemoryTier::kCached) return false;
    Cuts& of = cuts[static_cast<size_t>(shard.table)];
    of.rows |= shard.rows.size() < table.rows;
    of.columns |= shard.columns.size() < table.dim;
    cuts_rows |= of.rows;
    if (of.rows && of.columns && needs_row_norms(optimizer)) return false;
  }
  return plan.world > 1 || cuts_rows;
}

bool devices_may_exchange_ids(const RunConfig& config, int world) {
  const bool staged = config.comm == CommKind::kStaged || config.comm == CommKind::kMpi;
  return plans_for_gpu(config) && !(staged && world > 1);
}

bool devices_exchange_ids(const RunConfig& config, const Plan& plan) {
  return devices_may_exchange_ids(config, plan.world) &&
         devices_exchange_ids(config.model.tables, config.routing.mode,
                              config.train.sparse_optimizer, plan);
}

double ids_of_hosts(const RunConfig& config, const Plan& plan) {
  if (!devices_exchange_ids(config, plan)) return config.model.lookups_per_sample();
  double ids = 0;
  for (const int t : plan.data_parallel) ids += hotness_of(table_of(config, t));
  return ids;
}

}  // namespace dlrm
