#include "dlrm/plan/id_exchange.h"

#include <algorithm>
#include <set>

#include "dlrm/wire/message_bytes.h"

#include "memory.h"

namespace dlrm {
namespace {

/// How the shards of a table cut it.
struct Cuts {
  bool rows = false, columns = false;
};

std::vector<char> sharded_tables(const std::vector<TableConfig>& tables, const Plan& plan) {
  std::vector<char> sharded(tables.size(), 0);
  for (const Shard& shard : plan.shards) sharded[static_cast<size_t>(shard.table)] = 1;
  return sharded;
}

}  // namespace

bool devices_exchange_ids(const std::vector<TableConfig>& tables, RoutingMode mode,
                          OptimizerRule rule, const Plan& plan) {
  if (mode != RoutingMode::kFixed) return false;
  std::vector<Cuts> cuts(tables.size());
  bool cuts_rows = false;
  for (const Shard& shard : plan.shards) {
    const TableConfig& table = tables[static_cast<size_t>(shard.table)];
    if (shard.tier == MemoryTier::kCached) return false;
    Cuts& of = cuts[static_cast<size_t>(shard.table)];
    of.rows |= shard.rows.size() < table.rows;
    of.columns |= shard.columns.size() < table.dim;
    cuts_rows |= of.rows;
    if (of.rows && of.columns && traits_of(rule).rowwise()) return false;
  }
  return plan.world > 1 || cuts_rows;
}

int64_t id_block_bytes(const std::vector<TableConfig>& tables, const Plan& plan, int64_t samples) {
  const std::vector<char> sharded = sharded_tables(tables, plan);
  int64_t most_rows = 0, bytes = 0;
  for (size_t t = 0; t < tables.size(); ++t) {
    if (sharded[t]) most_rows = std::max(most_rows, tables[t].rows);
  }
  for (size_t t = 0; t < tables.size(); ++t) {
    if (!sharded[t]) continue;
    for (const FeatureConfig& feature : tables[t].features) {
      bytes += aligned_id_block(samples * feature.hotness * wire_id_bytes(most_rows));
    }
  }
  return bytes;
}

int64_t id_block_size_bytes(const std::vector<TableConfig>& tables, const Plan& plan) {
  std::vector<std::set<int64_t>> borders(tables.size());
  for (const Shard& shard : plan.shards) {
    borders[static_cast<size_t>(shard.table)].insert({shard.rows.begin, shard.rows.end});
  }
  int64_t words = 0;
  for (size_t t = 0; t < tables.size(); ++t) {
    if (borders[t].empty()) continue;
    const auto pieces = static_cast<int64_t>(borders[t].size()) - 1;
    words += static_cast<int64_t>(tables[t].features.size()) *
             (kIdBlockSizes + (pieces > 1 ? pieces : 0));
  }
  return words * static_cast<int64_t>(sizeof(int64_t));
}

bool devices_may_exchange_ids(const RunConfig& config, int world) {
  const bool staged = config.comm == CommKind::kStaged || config.comm == CommKind::kMpi;
  return plans_for_gpu(config) && !(staged && world > 1);
}

bool devices_exchange_ids(const RunConfig& config, const Plan& plan) {
  return devices_may_exchange_ids(config, plan.world) &&
         devices_exchange_ids(config.model.tables, config.routing.mode,
                              config.train.sparse_optimizer.type, plan);
}

}  // namespace dlrm
