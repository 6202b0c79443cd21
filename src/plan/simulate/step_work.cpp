#include "step_work.h"

#include <algorithm>
#include <map>
#include <utility>

#include "dlrm/plan/id_exchange.h"
#include "dlrm/plan/launches.h"
#include "dlrm/plan/traffic.h"
#include "dlrm/wire/gradient_buckets.h"
#include "dlrm/wire/message_bytes.h"

#include "cost.h"
#include "exchange.h"

namespace dlrm {
namespace {

/// The part of MachineSpeed::routing_bytes_per_id that the rank of the samples moves; the rank of
/// the rows receives and sorts ids: four passes that read and write 16 bytes.
constexpr double kRequesterPart = 32.0 / 160.0;

/// Shards of the same table and shape do the same work.
class ShardWorks {
 public:
  ShardWorks(const RunConfig& config, const CostModel& cost) : config_(config), cost_(cost) {}

  const TableWork& of(const Shard& shard) {
    const std::pair key{shard.table, std::pair{shard.rows.size(), shard.columns.size()}};
    const auto [found, is_new] = known_.try_emplace(key);
    if (is_new) {
      found->second = cost_.shard_work(config_.model.tables[static_cast<size_t>(shard.table)],
                                       shard.rows.size(), shard.columns.size());
    }
    return found->second;
  }

 private:
  const RunConfig& config_;
  const CostModel& cost_;
  std::map<std::pair<int, std::pair<int64_t, int64_t>>, TableWork> known_;
};

void add_table(const TableWork& work, const CostModel& cost, RankWork& rank) {
  rank.received_ids += work.lookups;
  rank.forward_bytes += work.forward_bytes();
  rank.sort_bytes += (1 - kRequesterPart) * cost.routing_bytes(work);
}

/// A device reads the ids of all rows twice, to select those of its shards.
void add_selections(const RunConfig& config, const Plan& plan, std::vector<RankWork>& ranks) {
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    if (shares_ids(plan, i)) continue;
    const TableConfig& table = config.model.tables[static_cast<size_t>(plan.shards[i].table)];
    const double ids = static_cast<double>(config.train.global_batch_size) * hotness_of(table);
    ranks[static_cast<size_t>(plan.shards[i].rank)].forward_bytes +=
        2 * ids * static_cast<double>(wire_id_bytes(table.rows));
  }
}

std::vector<RankWork> ranks_of(const RunConfig& config, const Plan& plan, const CostModel& cost) {
  std::vector<RankWork> ranks(static_cast<size_t>(plan.world));
  ShardWorks works(config, cost);
  for (const Shard& shard : plan.shards) {
    RankWork& rank = ranks[static_cast<size_t>(shard.rank)];
    rank.shards += 1;
    const TableWork& own = works.of(shard);
    add_table(own, cost, rank);
    rank.update_bytes += own.read_gradient_bytes() + own.updated_row_bytes();
  }
  const double ids = config.model.lookups_per_sample();
  double host_ids = ids;
  if (devices_exchange_ids(config, plan)) {
    host_ids = 0;
    for (const int t : plan.data_parallel) {
      host_ids += hotness_of(config.model.tables[static_cast<size_t>(t)]);
    }
    add_selections(config, plan, ranks);
  }
  for (int r = 0; r < plan.world; ++r) {
    RankWork& rank = ranks[static_cast<size_t>(r)];
    const Range local = part_of(config.train.global_batch_size, r, plan.world);
    rank.samples = static_cast<double>(local.size());
    rank.sent_ids = ids * rank.samples;
    rank.routed_ids = host_ids * rank.samples;
    rank.route_bytes = kRequesterPart * cost.speed().routing_bytes_per_id * rank.sent_ids;
  }
  for (const int t : plan.data_parallel) {
    const TableWork work = cost.replica_work(config.model.tables[static_cast<size_t>(t)]);
    for (RankWork& rank : ranks) {
      rank.shards += 1;
      add_table(work, cost, rank);
      rank.copy_gradient_bytes += work.read_gradient_bytes();
      rank.copy_update_bytes += work.updated_row_bytes();
    }
  }
  return ranks;
}

double mean(const StepLaunches& launches, size_t tasks) {
  return tasks > 0 ? static_cast<double>(launches.launches()) / static_cast<double>(tasks) : 0;
}

/// Shares the launches of a GPU's stages out among their tasks.
void add_launches(const RunConfig& config, const Plan& plan, StepWork& work) {
  const std::vector<StageLaunches> launches = stage_launches(config, plan);
  for (size_t r = 0; r < launches.size(); ++r) {
    RankWork& rank = work.ranks[r];
    rank.lookup_launches = launches[r].ids.launches() + launches[r].lookup.launches();
    rank.sort_launches = launches[r].sort.launches();
    rank.update_launches = launches[r].update_rows.launches();
  }
  const StageLaunches& all = launches.front();
  const DenseWork& dense = work.dense;
  size_t weights = 0, inputs = 1;
  for (const auto* products : {&dense.bottom, &dense.interaction, &dense.top}) {
    weights += products->size();
    for (const ProductWork& product : *products) inputs += product.input_gradient ? 1 : 0;
  }
  TaskLaunches& of = work.launches;
  of.bottom = mean(all.bottom, dense.bottom.size());
  of.interact = mean(all.interact, dense.interaction.size() + 1);
  of.top = mean(all.top, dense.top.size());
  of.input_gradients = mean(all.input_gradients, inputs);
  of.weight_gradients = mean(all.weight_gradients, weights);
  of.returned = mean(all.returned, 1);
  of.sent_gradients = mean(all.sent_gradients, 1);
  of.loss = mean(all.loss, 1);
  of.copy_gradients = mean(all.copy_gradients, 1);
  of.update_copies = mean(all.update_copies, 1);
  of.update_dense = mean(all.update_dense, 1);
  of.sums = 0;
  of.node_sums = mean(all.node_sums, 4);
}

}  // namespace

ExchangeWork all_to_all(const std::vector<double>& bytes_of_rank, int ranks_per_node) {
  const auto world = static_cast<int>(bytes_of_rank.size());
  const int on_node = std::min(world, ranks_per_node);
  const double local = static_cast<double>(on_node - 1) / std::max(world - 1, 1);
  ExchangeWork work;
  double node = 0;
  for (int r = 0; r < world; ++r) {
    if (r % ranks_per_node == 0) node = 0;
    const double bytes = bytes_of_rank[static_cast<size_t>(r)];
    node += bytes * (1 - local);
    work.local_bytes = std::max(work.local_bytes, bytes * local);
    if (world > ranks_per_node) work.network_bytes = std::max(work.network_bytes, node);
  }
  return work;
}

ExchangeWork all_reduce(double bytes, int world, int ranks_per_node) {
  const auto parts = [&](int of) { return 2.0 * (of - 1) / of * bytes; };
  const int nodes = (world + ranks_per_node - 1) / ranks_per_node;
  return {parts(std::min(world, ranks_per_node)), parts(nodes)};
}

StepWork step_work(const RunConfig& config, const Plan& plan, const PlanOptions& options) {
  const CostModel cost(config, plan.world, options);
  const int on_node =
      options.ranks_per_node > 0 ? options.ranks_per_node : cost.speed().ranks_per_node;
  StepWork work;
  work.ranks = ranks_of(config, plan, cost);
  work.dense = dense_work(config, cost.speed().gpu);
  if (cost.speed().gpu) add_launches(config, plan, work);
  work.batches_ahead = config.batches_ahead();
  work.draws_samples = config.data.source == DataKind::kSynthetic;
  work.readers = std::min(config.data.workers, config.data.prefetch);
  for (const double bytes : work.dense.bucket_bytes) {
    work.buckets.push_back(all_reduce(bytes, plan.world, on_node));
  }
  std::vector<double> ids, pooled, gradients, replicas;
  const std::vector<RankLoad> loads = rank_loads(config, plan);
  const std::vector<ExchangedBytes> exchanged = exchanged_bytes(config, plan);
  for (size_t rank = 0; rank < loads.size(); ++rank) {
    const RankLoad& load = loads[rank];
    work.ranks[rank].node_sent = load.node_pooled_bytes;
    work.ranks[rank].node_received = load.node_gradient_bytes;
    work.node_sums.local_bytes =
        std::max({work.node_sums.local_bytes, load.node_pooled_bytes, load.node_gradient_bytes});
    const ExchangedBytes& own = exchanged[rank];
    pooled.push_back(std::max(own.vectors_sent, own.vectors_received));
    // With sums of squares of row-wise rules.
    const double sent_gradients = load.gradient_sent_bytes - load.node_gradient_bytes;
    gradients.push_back(std::max(sent_gradients, own.gradients_received));
    replicas.push_back(load.replicated_bytes);
    ids.push_back(std::max(own.ids_sent, own.ids_received));
    work.ranks[rank].received_bytes = own.vector_copies;
    work.ranks[rank].packed_bytes = own.gradient_copies;
  }
  work.ids = all_to_all(ids, on_node);
  work.pooled = all_to_all(pooled, on_node);
  work.gradients = all_to_all(gradients, on_node);
  work.replicas = all_to_all(replicas, on_node);
  work.joins_copies = !work.replicas.empty() && cost.speed().gpu &&
                      joins_last_bucket(work.buckets.size(), config.train.wire.dense);
  if (work.joins_copies) {
    work.buckets.back().local_bytes += work.replicas.local_bytes;
    work.buckets.back().network_bytes += work.replicas.network_bytes;
    work.joined = work.replicas;
    work.replicas = {};
  }
  return work;
}

}  // namespace dlrm
