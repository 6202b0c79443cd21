#include <algorithm>
#include <map>

#include "dlrm/plan/cache_size.h"
#include "dlrm/plan/plan.h"
#include "dlrm/plan/traffic.h"

#include "exchange.h"
#include "gpu_memory.h"
#include "memory.h"
#include "node_plan.h"

namespace dlrm {
namespace {

void add_shards(const RunConfig& config, const Plan& plan, std::vector<RankLoad>& loads) {
  const auto batch = static_cast<double>(config.train.global_batch_size);
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    const Shard& shard = plan.shards[i];
    const TableConfig& table = config.model.tables[static_cast<size_t>(shard.table)];
    RankLoad& load = loads[static_cast<size_t>(shard.rank)];
    const bool new_table =
        i == 0 || plan.shards[i - 1].rank != shard.rank || plan.shards[i - 1].table != shard.table;
    load.tables += new_table ? 1 : 0;
    load.shards += 1;
    load.lookups += batch * hotness_of(table) * static_cast<double>(shard.rows.size()) /
                    static_cast<double>(table.rows);
  }
}

void add_replicas(const RunConfig& config, const Plan& plan, std::vector<RankLoad>& loads) {
  for (int t : plan.data_parallel) {
    const double hotness = hotness_of(config.model.tables[static_cast<size_t>(t)]);
    for (int rank = 0; rank < plan.world; ++rank) {
      const Range local = part_of(config.train.global_batch_size, rank, plan.world);
      loads[static_cast<size_t>(rank)].lookups += static_cast<double>(local.size()) * hotness;
    }
  }
}

/// Whether other shards have some of the shard's rows, but not all of them, or others besides.
bool overlaps_in_part(const Plan& plan, const Shard& shard) {
  return std::any_of(plan.shards.begin(), plan.shards.end(), [&](const Shard& other) {
    return other.table == shard.table && other.rows != shard.rows &&
           other.rows.begin < shard.rows.end && shard.rows.begin < other.rows.end;
  });
}

void add_shard_memory(const RunConfig& config, const Plan& plan, std::vector<RankMemory>& memory) {
  const OptimizerRule optimizer = config.train.sparse_optimizer.type;
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    const Shard& shard = plan.shards[i];
    const TableConfig& table = config.model.tables[static_cast<size_t>(shard.table)];
    RankMemory& own = memory[static_cast<size_t>(shard.rank)];
    const bool on_host = shard.tier == MemoryTier::kHost;
    if (shard.tier != MemoryTier::kCached) {
      (on_host ? own.host_tables : own.tables) +=
          row_bytes(table, shard.rows.size(), shard.columns.size());
      (on_host ? own.host_optimizer_state : own.optimizer_state) +=
          state_bytes(optimizer, shard.rows.size(), shard.columns.size());
    }
    own.exchange += owner_exchange_bytes(config, table, shard.columns.size());
    if (plans_for_gpu(config)) {
      const bool ordered = shard.columns.size() < table.dim &&
                           (shard.tier == MemoryTier::kCached || overlaps_in_part(plan, shard));
      own.exchange +=
          gpu_square_sum_bytes(config, table, shard.rows.size(), shard.columns.size(), ordered);
    }
    if (shares_ids(plan, i)) continue;
    own.routing += routed_bytes(config, table, shard.rows.size(), config.train.global_batch_size);
  }
}

/// Partial vectors in fp32, and as messages in both directions. The owner's vectors count already.
void add_node_sums(const RunConfig& config, const Plan& plan, std::vector<RankMemory>& memory) {
  for (const NodeSum& sum : node_sums(config.model.tables, config.routing.mode, plan)) {
    const TableConfig& table = config.model.tables[static_cast<size_t>(sum.table)];
    const double bytes = 4.0 * static_cast<double>(config.train.global_batch_size) *
                         static_cast<double>(table.features.size()) *
                         static_cast<double>(sum.columns.size());
    for (const Shard& shard : sum.shards) {
      memory[static_cast<size_t>(shard.rank)].exchange += bytes;
    }
  }
}

/// Shows cache_bytes() the shards of one rank alone, which the plan has in a row.
void add_caches(const RunConfig& config, const Plan& plan, std::vector<RankMemory>& memory) {
  Plan own;
  own.world = plan.world;
  for (auto first = plan.shards.begin(); first != plan.shards.end();) {
    const int rank = first->rank;
    const auto last = std::find_if(first, plan.shards.end(),
                                   [&](const Shard& shard) { return shard.rank != rank; });
    const bool cached = std::any_of(
        first, last, [](const Shard& shard) { return shard.tier == MemoryTier::kCached; });
    if (cached) {
      own.shards.assign(first, last);
      const CacheBytes bytes = cache_bytes(config, own, rank);
      RankMemory& of_rank = memory[static_cast<size_t>(rank)];
      of_rank.cache = bytes.slots;
      (plans_for_gpu(config) ? of_rank.host_cache : of_rank.cache) += bytes.rest;
    }
    first = last;
  }
}

/// What a rank needs for its samples, whatever shards it has.
struct LocalBytes {
  double activations = 0, exchange = 0, input = 0;
};

}  // namespace

std::vector<RankMemory> rank_memory(const RunConfig& config, const Plan& plan) {
  std::vector<RankMemory> memory(static_cast<size_t>(plan.world));
  add_shard_memory(config, plan, memory);
  add_node_sums(config, plan, memory);
  add_caches(config, plan, memory);
  double message_bytes = 0, list_bytes = 0;  // per sample, of all shards
  double id_messages = 0;                    // per sample, received by every rank
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    const Shard& shard = plan.shards[i];
    const TableConfig& table = config.model.tables[static_cast<size_t>(shard.table)];
    message_bytes += shard_message_bytes(config, table, shard.columns.size(), 1);
    if (!shares_ids(plan, i)) list_bytes += returned_list_bytes(config, table, shard.rows, 1);
    const bool first = shard.rows.begin == 0 && shard.columns.begin == 0;
    if (plans_for_gpu(config) && first) id_messages += gpu_message_bytes(config, table);
  }
  RankMemory replicated;
  for (int t : plan.data_parallel) {
    const TableConfig& table = config.model.tables[static_cast<size_t>(t)];
    const bool on_host =
        std::binary_search(plan.host_replicas.begin(), plan.host_replicas.end(), t);
    (on_host ? replicated.host_tables : replicated.tables) +=
        row_bytes(table, table.rows, table.dim);
    (on_host ? replicated.host_optimizer_state : replicated.optimizer_state) +=
        state_bytes(config.train.sparse_optimizer.type, table.rows, table.dim);
    replicated.exchange += replicated_gradient_bytes(config, table, plan.world);
    replicated.routing +=
        routed_bytes(config, table, table.rows,
                     part_of(config.train.global_batch_size, plan.world - 1, plan.world).size());
  }
  const double dense = dense_bytes(config), libraries = library_bytes(config);
  std::map<int64_t, LocalBytes> by_samples;  // of which there are two numbers
  for (int rank = 0; rank < plan.world; ++rank) {
    RankMemory& own = memory[static_cast<size_t>(rank)];
    const int64_t local = part_of(config.train.global_batch_size, rank, plan.world).size();
    const auto [known, is_new] = by_samples.try_emplace(local);
    LocalBytes& of_samples = known->second;
    if (is_new) {
      of_samples = {activation_bytes(config, local), local_exchange_bytes(config, local),
                    input_bytes(config, local)};
    }
    own.tables += replicated.tables;
    own.optimizer_state += replicated.optimizer_state;
    own.host_tables += replicated.host_tables;
    own.host_optimizer_state += replicated.host_optimizer_state;
    own.dense = dense;
    own.activations = of_samples.activations;
    own.exchange +=
        replicated.exchange + of_samples.exchange + static_cast<double>(local) * message_bytes;
    own.routing += replicated.routing + static_cast<double>(local) * list_bytes + id_messages;
    own.libraries = libraries;
    own.input = of_samples.input;
  }
  return memory;
}

std::vector<RankLoad> rank_loads(const RunConfig& config, const Plan& plan) {
  std::vector<RankLoad> loads(static_cast<size_t>(plan.world));
  add_shards(config, plan, loads);
  add_replicas(config, plan, loads);
  add_exchange(config, plan, loads);
  add_square_sums(config, plan, loads);
  add_replica_exchange(config, plan, loads);
  const std::vector<RankMemory> memory = rank_memory(config, plan);
  for (size_t rank = 0; rank < loads.size(); ++rank) {
    const double on_device =
        memory[rank].tables + memory[rank].optimizer_state + memory[rank].cache;
    loads[rank].table_bytes = on_device + memory[rank].host_total();
    loads[rank].other_bytes = memory[rank].total() - on_device;
  }
  return loads;
}

}  // namespace dlrm
