#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "dlrm/plan/cache_size.h"
#include "dlrm/plan/id_exchange.h"
#include "dlrm/plan/node_sums.h"
#include "dlrm/plan/plan.h"
#include "dlrm/plan/traffic.h"

#include "exchange.h"
#include "memory.h"
#include "numbers.h"

namespace dlrm {
namespace {

void add_lookups(const RunConfig& config, const Plan& plan, std::vector<RankLoad>& loads) {
  const int64_t batch = config.train.global_batch_size;
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    const Shard& shard = plan.shards[i];
    const TableConfig& table = table_of(config, shard.table);
    RankLoad& load = loads[static_cast<size_t>(shard.rank)];
    const bool new_table =
        i == 0 || plan.shards[i - 1].rank != shard.rank || plan.shards[i - 1].table != shard.table;
    load.tables += new_table ? 1 : 0;
    load.shards += 1;
    load.lookups += real(batch) * hotness_of(table) * real(shard.rows.size()) / real(table.rows);
  }
  double copied = 0;
  for (const int t : plan.data_parallel) copied += hotness_of(table_of(config, t));
  for (int rank = 0; rank < plan.world; ++rank) {
    loads[static_cast<size_t>(rank)].lookups +=
        real(part_of(batch, rank, plan.world).size()) * copied;
  }
}

/// Rows and their state, in either memory.
void add_held(const RunConfig& config, const TableConfig& table, int64_t rows, int64_t width,
              bool on_host, RankMemory& memory) {
  (on_host ? memory.host_tables : memory.tables) += row_bytes(table, rows, width);
  (on_host ? memory.host_optimizer_state : memory.optimizer_state) +=
      state_bytes(config.train.sparse_optimizer.type, rows, width);
}

/// By table: 1 if shards have some rows in common, but not all of them.
std::vector<char> uneven_tables(const RunConfig& config, const Plan& plan) {
  std::set<std::tuple<int, int64_t, int64_t>> ranges;
  for (const Shard& shard : plan.shards) {
    ranges.insert({shard.table, shard.rows.begin, shard.rows.end});
  }
  std::vector<char> uneven(config.model.tables.size(), 0);
  int last = -1;
  int64_t end = 0;  // of the table's rows so far
  for (const auto& [table, first, after] : ranges) {
    if (table == last && first < end) uneven[static_cast<size_t>(table)] = 1;
    end = table == last ? std::max(end, after) : after;
    last = table;
  }
  return uneven;
}

/// What depends on the rows of a shard alone. Many shards have as many rows of a table.
struct BytesOfRows {
  double vectors = 0;  ///< for which their owner has room
  double routed = 0;   ///< bytes of an owner
};

void add_shard_memory(const RunConfig& config, const Plan& plan, std::vector<RankMemory>& memory) {
  const ModelTypes types = model_types(config);
  std::map<std::pair<int, int64_t>, BytesOfRows> known;  // by table and rows
  const std::vector<char> uneven = uneven_tables(config, plan);
  const bool local = pools_locally(config.model.tables, plan);
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    const Shard& shard = plan.shards[i];
    const TableConfig& table = table_of(config, shard.table);
    const int64_t rows = shard.rows.size(), width = shard.columns.size();
    const auto [found, is_new] = known.try_emplace({shard.table, rows});
    BytesOfRows& of_rows = found->second;
    if (is_new) {
      of_rows = {vector_room_of_all(config, table, rows, plan.world),
                 routed_bytes(config, table, rows, config.train.global_batch_size, plan.world,
                              types.key_bytes)};
    }
    RankMemory& own = memory[static_cast<size_t>(shard.rank)];
    const bool cached = shard.tier == MemoryTier::kCached;
    if (!cached) add_held(config, table, rows, width, shard.tier == MemoryTier::kHost, own);
    if (!local) {
      const WireConfig sent = vector_types(config, table, rows, width, types.gradient);
      own.exchange += of_rows.vectors * real(width) * owned_float_bytes(sent);
    }
    if (plans_for_gpu(config)) {
      const bool ordered = cached || uneven[static_cast<size_t>(shard.table)];
      own.exchange += gpu_square_sum_bytes(config, table, rows, width, plan.world, ordered);
    }
    own.exchange += max_gradient_bytes(table, width, config.train.global_batch_size);
    if (!shares_ids(plan, i)) own.routing += of_rows.routed;
  }
}

void add_node_sums(const RunConfig& config, const std::vector<NodeSum>& sums, int world,
                   std::vector<RankMemory>& memory) {
  const DType gradient = config.sent_types().backward;
  for (const NodeSum& sum : sums) {
    const TableConfig& table = table_of(config, sum.table);
    const auto width = real(sum.columns.size());
    const auto shards = real(sum.shards.size());
    for (size_t i = 0; i < sum.shards.size(); ++i) {
      const Shard& shard = sum.shards[i];
      const auto part = real(sum.part(i).size());
      memory[static_cast<size_t>(shard.rank)].exchange +=
          summed_exchange_bytes(config, table, width, part, shards, gradient) -
          owner_exchange_bytes(config, table, shard.rows.size(), shard.columns.size(), world,
                               gradient);
    }
  }
}

/// The bytes of vectors that a rank of so many samples receives, of all shards.
double message_bytes(const RunConfig& config, const Plan& plan, const std::vector<NodeSum>& sums,
                     int64_t samples) {
  if (pools_locally(config.model.tables, plan)) return 0;
  const DType gradient = config.sent_types().backward;
  std::map<std::pair<int, int64_t>, double> known;  // vectors, by table and rows
  const auto vectors_of = [&](const Shard& shard) {
    const auto [found, is_new] = known.try_emplace({shard.table, shard.rows.size()});
    if (is_new) {
      found->second =
          vector_room(config, table_of(config, shard.table), shard.rows.size(), samples);
    }
    return found->second;
  };
  const auto bytes_of = [&](const Shard& shard, double vectors) {
    const TableConfig& table = table_of(config, shard.table);
    const int64_t width = shard.columns.size();
    const WireConfig sent = vector_types(config, table, shard.rows.size(), width, gradient);
    return vectors * real(width) * message_float_bytes(sent);
  };
  double bytes = 0;
  for (const Shard& shard : plan.shards) bytes += bytes_of(shard, vectors_of(shard));
  for (const NodeSum& sum : sums) {
    const TableConfig& table = table_of(config, sum.table);
    const auto vectors = real(samples) * real(table.features.size());
    bytes += bytes_of(sum.shards.front(), vectors);
    for (const Shard& shard : sum.shards) bytes -= bytes_of(shard, vectors_of(shard));
  }
  return bytes;
}

/// Vectors that are sums of several ranks. Those that one node adds are counted too.
double row_sum_bytes(const RunConfig& config, const Plan& plan, int64_t samples) {
  std::set<int> cut;
  for (const Shard& shard : plan.shards) {
    if (shard.rows.begin > 0) cut.insert(shard.table);
  }
  double bytes = 0;
  for (const int t : cut) bytes += row_sum_bytes(config, table_of(config, t), samples);
  return bytes;
}

/// Of data-parallel tables, on every rank.
RankMemory replica_memory(const RunConfig& config, const Plan& plan) {
  RankMemory memory;
  const double key_bytes = model_types(config).key_bytes;
  const int64_t most_samples = largest_part(config.train.global_batch_size, plan.world);
  for (const int t : plan.data_parallel) {
    const TableConfig& table = table_of(config, t);
    add_held(config, table, table.rows, table.dim, is_listed(plan.host_replicas, t), memory);
    memory.exchange += replicated_gradient_bytes(config, table, plan.world) +
                       max_gradient_bytes(table, table.dim, most_samples);
    memory.routing += routed_bytes(config, table, table.rows, most_samples, 1, key_bytes);
  }
  return memory;
}

/// For the samples of a rank, whatever shards it has.
RankMemory sample_memory(const RunConfig& config, const Plan& plan,
                         const std::vector<NodeSum>& sums, int64_t samples) {
  RankMemory memory;
  memory.dense = dense_bytes(config);
  memory.libraries = library_bytes(config);
  memory.activations = activation_bytes(config, samples);
  memory.exchange = local_exchange_bytes(config, samples) +
                    message_bytes(config, plan, sums, samples) +
                    row_sum_bytes(config, plan, samples);
  memory.input = input_bytes(config, samples);
  const bool on_devices = devices_exchange_ids(config, plan);
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    const Shard& shard = plan.shards[i];
    const TableConfig& table = table_of(config, shard.table);
    if (!shares_ids(plan, i)) {
      memory.routing += returned_list_bytes(config, table, shard.rows, samples);
    }
    const bool first = shard.rows.begin == 0 && shard.columns.begin == 0;
    if (on_devices && first) memory.routing += gpu_message_bytes(config, table);
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
  add_shard_memory(config, plan, memory);
  const std::vector<NodeSum> sums = node_sums(config.model.tables, config.routing.mode, plan);
  add_node_sums(config, sums, plan.world, memory);
  const RankMemory replicas = replica_memory(config, plan);
  std::map<int64_t, RankMemory> by_samples;  // of which there are two numbers
  for (int rank = 0; rank < plan.world; ++rank) {
    RankMemory& own = memory[static_cast<size_t>(rank)];
    const int64_t local = part_of(config.train.global_batch_size, rank, plan.world).size();
    const auto [known, is_new] = by_samples.try_emplace(local);
    if (is_new) known->second = sample_memory(config, plan, sums, local);
    add(replicas, own);
    add(known->second, own);
    const CacheBytes cache = cache_bytes(config, plan, rank);
    own.cache += cache.slots;
    (plans_for_gpu(config) ? own.host_cache : own.cache) += cache.rest;
  }
  return memory;
}

std::vector<RankLoad> rank_loads(const RunConfig& config, const Plan& plan) {
  std::vector<RankLoad> loads(static_cast<size_t>(plan.world));
  add_lookups(config, plan, loads);
  add_exchange(config, plan, loads);
  add_square_sums(config, plan, loads);
  add_replica_exchange(config, plan, loads);
  const std::vector<RankMemory> memory = rank_memory(config, plan);
  for (size_t rank = 0; rank < loads.size(); ++rank) {
    const RankMemory& own = memory[rank];
    const double on_device = own.tables + own.optimizer_state + own.cache;
    loads[rank].table_bytes = on_device + own.host_total();
    loads[rank].other_bytes = own.total() - on_device;
  }
  return loads;
}

}  // namespace dlrm
