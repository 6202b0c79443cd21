#include <algorithm>
#include <map>
#include <set>

#include "dlrm/plan/cache_size.h"
#include "dlrm/plan/id_exchange.h"
#include "dlrm/plan/node_sums.h"
#include "dlrm/plan/plan.h"
#include "dlrm/plan/traffic.h"

#include "memory.h"
#include "numbers.h"

namespace dlrm {
namespace {

/// The fp32 sums of a table's partial vectors, which are rounded to E, if its rows are cut.
double row_sum_bytes(const RunConfig& config, const TableConfig& table, int64_t local_batch) {
  if (config.compute_type() == DType::kFloat32) return 0;
  return 4.0 * real(local_batch) * real(table.features.size()) * real(table.dim);
}

/// The vectors that a rank of so many samples receives. Those of sums replace those of their
/// shards.
double received_bytes(const RunConfig& config, const Plan& plan, const std::vector<NodeSum>& sums,
                      const TableMemory& tables, int64_t samples) {
  const auto bytes_of = [&](const Shard& shard) {
    return tables.received_vectors(table_of(config, shard.table), shard, samples);
  };
  double bytes = 0;
  for (const Shard& shard : plan.shards) bytes += bytes_of(shard);
  for (const NodeSum& sum : sums) {
    for (const Shard& shard : sum.shards) bytes -= bytes_of(shard);
    bytes += tables.received_vectors(sum, samples);
  }
  return bytes;
}

/// For the samples of a rank, whatever shards it has.
RankMemory sample_memory(const RunConfig& config, const Plan& plan,
                         const std::vector<NodeSum>& sums, const TableMemory& tables,
                         int64_t samples) {
  RankMemory memory = common_memory(config, samples);
  if (!pools_locally(config.model.tables, plan)) {
    memory.exchange += received_bytes(config, plan, sums, tables, samples);
  }
  const bool on_devices = devices_exchange_ids(config, plan);
  std::set<int> summed;  // tables, also those of which a node adds all vectors
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    const Shard& shard = plan.shards[i];
    const TableConfig& table = table_of(config, shard.table);
    if (!shares_ids(plan, i)) memory.routing += tables.returned_lists(table, shard.rows, samples);
    if (shard.rows.begin > 0 && summed.insert(shard.table).second) {
      memory.exchange += row_sum_bytes(config, table, samples);
    }
    const bool first = shard.rows.begin == 0 && shard.columns.begin == 0;
    if (on_devices && first) memory.routing += tables.gpu_messages(table);
  }
  return memory;
}

void add(const RankMemory& more, RankMemory& sum) {
  using M = RankMemory;
  for (double M::*part : {&M::tables, &M::optimizer_state, &M::cache, &M::dense, &M::activations,
                          &M::exchange, &M::routing, &M::input, &M::libraries, &M::host_tables,
                          &M::host_optimizer_state, &M::host_cache}) {
    sum.*part += more.*part;
  }
}

}  // namespace

std::vector<RankMemory> rank_memory(const RunConfig& config, const Plan& plan) {
  std::vector<RankMemory> memory(static_cast<size_t>(plan.world));
  const TableMemory tables(config, plan.world);
  const bool exchanges = !pools_locally(config.model.tables, plan);
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    const Shard& shard = plan.shards[i];
    RankMemory own = tables.shard(table_of(config, shard.table), shard, exchanges);
    if (shares_ids(plan, i)) own.routing = 0;
    add(own, memory[static_cast<size_t>(shard.rank)]);
  }
  const std::vector<NodeSum> sums = node_sums(config.model.tables, config.routing.mode, plan);
  for (const NodeSum& sum : sums) {
    for (size_t i = 0; i < sum.shards.size(); ++i) {
      const Shard& shard = sum.shards[i];
      memory[static_cast<size_t>(shard.rank)].exchange +=
          tables.summed_vectors(sum, i) -
          tables.owned_vectors(table_of(config, shard.table), shard);
    }
  }
  RankMemory replicas;
  for (const int t : plan.data_parallel) {
    add(tables.replica(table_of(config, t), is_listed(plan.host_replicas, t)), replicas);
  }
  std::map<int64_t, RankMemory> by_samples;  // of which there are two numbers
  for (int rank = 0; rank < plan.world; ++rank) {
    RankMemory& own = memory[static_cast<size_t>(rank)];
    const int64_t local = part_of(config.train.global_batch_size, rank, plan.world).size();
    const auto [known, is_new] = by_samples.try_emplace(local);
    if (is_new) known->second = sample_memory(config, plan, sums, tables, local);
    add(replicas, own);
    add(known->second, own);
    const CacheBytes cache = cache_bytes(config, plan, rank);
    own.cache += cache.slots;
    (plans_for_gpu(config) ? own.host_cache : own.cache) += cache.rest;
  }
  return memory;
}

}  // namespace dlrm
