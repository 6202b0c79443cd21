#include "dlrm/plan/plan.h"
#include "dlrm/plan/traffic.h"

#include "memory.h"

namespace dlrm {
namespace {

double batch_of(const RunConfig& config, int rank, int world) {
  return static_cast<double>(part_of(config.train.global_batch_size, rank, world).size());
}

/// Whether this shard takes its ids from the one before it: another columns of the same rows.
bool shares_ids(const Plan& plan, size_t i) {
  if (i == 0) return false;
  const Shard& a = plan.shards[i - 1];
  const Shard& b = plan.shards[i];
  return a.rank == b.rank && a.table == b.table && a.rows == b.rows;
}

/// Bytes a sample to owners, by owner and in all.
struct Flow {
  explicit Flow(int world) : by_owner(static_cast<size_t>(world)) {}
  void add(int owner, double bytes) {
    by_owner[static_cast<size_t>(owner)] += bytes;
    all += bytes;
  }
  std::vector<double> by_owner;
  double all = 0;
};

struct Flows {
  explicit Flows(int world) : ids(world), pooled(world), gradients(world) {}
  Flow ids, pooled, gradients;
};

Flows flows_of(const RunConfig& config, const Plan& plan) {
  Flows flows(plan.world);
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    const Shard& shard = plan.shards[i];
    const TableConfig& table = config.model.tables[static_cast<size_t>(shard.table)];
    const int64_t width = shard.columns.size();
    if (!shares_ids(plan, i)) flows.ids.add(shard.rank, id_bytes_per_sample(table, shard.rows));
    flows.pooled.add(shard.rank, pooled_bytes_per_sample(table, width, config.train.wire.forward));
    flows.gradients.add(shard.rank,
                        pooled_bytes_per_sample(table, width, config.train.wire.backward));
  }
  return flows;
}

/// Fixed routing gathers all ids of sharded tables on every rank, whoever owns them.
Flow gathered_ids(const RunConfig& config, const Plan& plan) {
  std::vector<char> sharded(config.model.tables.size(), 0);
  for (const Shard& shard : plan.shards) sharded[static_cast<size_t>(shard.table)] = 1;
  double bytes = 0;
  for (size_t t = 0; t < sharded.size(); ++t) {
    if (sharded[t]) bytes += 8.0 * hotness_of(config.model.tables[t]);
  }
  Flow flow(plan.world);
  for (int rank = 0; rank < plan.world; ++rank) flow.add(rank, bytes);
  return flow;
}

void add_exchange(const RunConfig& config, const Plan& plan, std::vector<RankLoad>& loads) {
  Flows flows = flows_of(config, plan);
  if (config.routing.mode == RoutingMode::kFixed) flows.ids = gathered_ids(config, plan);
  const auto batch = static_cast<double>(config.train.global_batch_size);
  for (int rank = 0; rank < plan.world; ++rank) {
    RankLoad& load = loads[static_cast<size_t>(rank)];
    const double local = batch_of(config, rank, plan.world);
    const auto of = [&](const Flow& flow) { return flow.by_owner[static_cast<size_t>(rank)]; };
    const auto to_owners = [&](const Flow& flow) { return local * (flow.all - of(flow)); };
    const auto at_owner = [&](const Flow& flow) { return (batch - local) * of(flow); };
    load.ids_sent_bytes = to_owners(flows.ids);
    load.pooled_sent_bytes = at_owner(flows.pooled);
    load.gradient_sent_bytes = to_owners(flows.gradients);
    load.received_bytes = at_owner(flows.ids) + to_owners(flows.pooled) + at_owner(flows.gradients);
  }
}

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
  const auto batch = config.train.global_batch_size;
  for (int t : plan.data_parallel) {
    const TableConfig& table = config.model.tables[static_cast<size_t>(t)];
    const bool pairs = replicates_by_pairs(table, batch, plan.world);
    std::vector<double> sent(loads.size());
    double all = 0;
    for (int rank = 0; rank < plan.world; ++rank) {
      const double local = batch_of(config, rank, plan.world);
      loads[static_cast<size_t>(rank)].lookups += local * hotness_of(table);
      sent[static_cast<size_t>(rank)] = pairs ? replicated_pair_bytes(table, local, plan.world)
                                              : replicated_allreduce_bytes(table, plan.world);
      all += sent[static_cast<size_t>(rank)];
    }
    for (size_t rank = 0; rank < loads.size(); ++rank) {
      loads[rank].replicated_bytes += sent[rank];
      // A rank's pairs go to each other rank alike.
      loads[rank].received_bytes +=
          pairs && plan.world > 1 ? (all - sent[rank]) / (plan.world - 1) : sent[rank];
    }
  }
}

void add_shard_memory(const RunConfig& config, const Plan& plan, std::vector<RankMemory>& memory) {
  const OptimizerType optimizer = config.train.sparse_optimizer.type;
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    const Shard& shard = plan.shards[i];
    const TableConfig& table = config.model.tables[static_cast<size_t>(shard.table)];
    RankMemory& own = memory[static_cast<size_t>(shard.rank)];
    own.tables += row_bytes(table, shard.rows.size(), shard.columns.size());
    own.optimizer_state += state_bytes(optimizer, shard.rows.size(), shard.columns.size());
    own.exchange += owner_exchange_bytes(config, table, shard.columns.size());
    if (shares_ids(plan, i)) continue;
    own.routing += routed_bytes(config, table, shard.rows.size(), config.train.global_batch_size);
  }
}

}  // namespace

std::vector<RankMemory> rank_memory(const RunConfig& config, const Plan& plan) {
  std::vector<RankMemory> memory(static_cast<size_t>(plan.world));
  add_shard_memory(config, plan, memory);
  double message_bytes = 0;  // a sample, of all shards
  for (const Shard& shard : plan.shards) {
    message_bytes += shard_message_bytes(
        config, config.model.tables[static_cast<size_t>(shard.table)], shard.columns.size(), 1);
  }
  RankMemory replicated;
  for (int t : plan.data_parallel) {
    const TableConfig& table = config.model.tables[static_cast<size_t>(t)];
    replicated.tables += row_bytes(table, table.rows, table.dim);
    replicated.optimizer_state +=
        state_bytes(config.train.sparse_optimizer.type, table.rows, table.dim);
    replicated.exchange += replicated_gradient_bytes(config, table, plan.world);
    replicated.routing +=
        routed_bytes(config, table, table.rows,
                     part_of(config.train.global_batch_size, plan.world - 1, plan.world).size());
  }
  for (int rank = 0; rank < plan.world; ++rank) {
    RankMemory& own = memory[static_cast<size_t>(rank)];
    const int64_t local = part_of(config.train.global_batch_size, rank, plan.world).size();
    own.tables += replicated.tables;
    own.optimizer_state += replicated.optimizer_state;
    own.dense = dense_bytes(config);
    own.activations = activation_bytes(config, local);
    own.exchange += replicated.exchange + local_exchange_bytes(config, local) +
                    static_cast<double>(local) * message_bytes;
    own.routing += replicated.routing;
    own.input = input_bytes(config, local);
  }
  return memory;
}

std::vector<RankLoad> rank_loads(const RunConfig& config, const Plan& plan) {
  std::vector<RankLoad> loads(static_cast<size_t>(plan.world));
  add_shards(config, plan, loads);
  add_exchange(config, plan, loads);
  add_replicas(config, plan, loads);
  const std::vector<RankMemory> memory = rank_memory(config, plan);
  for (size_t rank = 0; rank < loads.size(); ++rank) {
    loads[rank].table_bytes = memory[rank].tables + memory[rank].optimizer_state;
    loads[rank].other_bytes = memory[rank].total() - loads[rank].table_bytes;
  }
  return loads;
}

}  // namespace dlrm
