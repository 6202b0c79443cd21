#include "step_work.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "dlrm/plan/id_exchange.h"
#include "dlrm/plan/traffic.h"
#include "dlrm/wire/gradient_buckets.h"
#include "dlrm/wire/message_bytes.h"

#include "cost.h"
#include "numbers.h"

namespace dlrm {
namespace {

/// The part of MachineSpeed::routing_bytes_per_id that the rank of the samples moves; the rank of
/// the rows receives and sorts ids: four passes that read and write 16 bytes.
constexpr double kRequesterPart = 32.0 / 160.0;

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
    const double ids = real(config.train.global_batch_size) * hotness_of(table);
    ranks[static_cast<size_t>(plan.shards[i].rank)].forward_bytes +=
        2 * ids * real(wire_id_bytes(table.rows));
  }
}

std::vector<RankWork> ranks_of(const RunConfig& config, const Plan& plan, const CostModel& cost) {
  std::vector<RankWork> ranks(static_cast<size_t>(plan.world));
  std::map<std::tuple<int, int64_t, int64_t>, TableWork> known;  // by table and shape
  for (const Shard& shard : plan.shards) {
    RankWork& rank = ranks[static_cast<size_t>(shard.rank)];
    rank.shards += 1;
    const int64_t rows = shard.rows.size(), width = shard.columns.size();
    const auto [found, is_new] = known.try_emplace({shard.table, rows, width});
    const TableWork& own = found->second;
    if (is_new) found->second = cost.shard_work(table_of(config, shard.table), rows, width);
    add_table(own, cost, rank);
    rank.update_bytes += own.read_gradient_bytes() + own.updated_row_bytes();
  }
  const WireConfig sent = config.sent_types();
  const double element = real(size_of(config.compute_type()));
  const double ids = config.model.lookups_per_sample(), host_ids = ids_of_hosts(config, plan);
  if (devices_exchange_ids(config, plan)) add_selections(config, plan, ranks);
  for (int r = 0; r < plan.world; ++r) {
    RankWork& rank = ranks[static_cast<size_t>(r)];
    const Range local = part_of(config.train.global_batch_size, r, plan.world);
    rank.samples = real(local.size());
    rank.sent_ids = ids * rank.samples;
    rank.routed_ids = host_ids * rank.samples;
    const double columns = rank.samples * real(config.model.embedding_width());
    rank.received_bytes = columns * (element + real(size_of(sent.forward)));
    rank.packed_bytes = columns * (element + real(size_of(sent.backward)));
    rank.route_bytes = kRequesterPart * cost.speed().routing_bytes_per_id * rank.sent_ids;
  }
  for (const int t : plan.data_parallel) {
    const TableWork work = cost.replica_work(table_of(config, t));
    for (RankWork& rank : ranks) {
      rank.shards += 1;
      add_table(work, cost, rank);
      rank.copy_gradient_bytes += work.read_gradient_bytes();
      rank.copy_update_bytes += work.updated_row_bytes();
    }
  }
  return ranks;
}

}  // namespace

ExchangeWork all_to_all(const std::vector<double>& bytes_of_rank, int ranks_per_node) {
  const auto world = static_cast<int>(bytes_of_rank.size());
  const int on_node = std::min(world, ranks_per_node);
  const double local = real(on_node - 1) / std::max(world - 1, 1);
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
  work.batches_ahead = config.batches_ahead();
  work.draws_samples = config.data.source == DataKind::kSynthetic;
  work.readers = std::min(config.data.workers, config.data.prefetch);
  for (const double bytes : work.dense.bucket_bytes) {
    work.buckets.push_back(all_reduce(bytes, plan.world, on_node));
  }
  std::vector<double> ids, pooled, gradients, replicas;
  for (const RankLoad& load : rank_loads(config, plan)) {
    RankWork& rank = work.ranks[ids.size()];
    const double sums = load.node_pooled_bytes, back = load.node_gradient_bytes;
    rank.node_sent = sums;
    rank.node_received = back;
    work.node_sums.local_bytes = std::max({work.node_sums.local_bytes, sums, back});
    ids.push_back(std::max(load.ids_sent_bytes, load.ids_received_bytes));
    pooled.push_back(std::max(load.pooled_sent_bytes - sums, load.pooled_received_bytes - back));
    gradients.push_back(
        std::max(load.gradient_sent_bytes - back, load.gradient_received_bytes - sums));
    replicas.push_back(load.replicated_bytes);
  }
  work.ids = all_to_all(ids, on_node);
  work.pooled = all_to_all(pooled, on_node);
  work.gradients = all_to_all(gradients, on_node);
  work.replicas = all_to_all(replicas, on_node);
  work.joins_copies = !work.replicas.empty() && cost.speed().gpu &&
                      joins_last_bucket(work.buckets.size(), config.train.wire.dense);
  if (work.joins_copies) {
    work.buckets.back() += work.replicas;
    work.replicas = {};
  }
  return work;
}

}  // namespace dlrm
