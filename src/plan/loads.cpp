#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "dlrm/plan/cache_size.h"
#include "dlrm/plan/id_exchange.h"
#include "dlrm/plan/node_sums.h"
#include "dlrm/plan/plan.h"
#include "dlrm/plan/traffic.h"

#include "exchange.h"
#include "gpu_memory.h"
#include "memory.h"

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

/// The shards of which other shards have some rows, but not all of them, or others besides.
class PartialOverlaps {
 public:
  explicit PartialOverlaps(const Plan& plan) {
    for (const Shard& shard : plan.shards) found_[key_of(shard)] = false;
    // They are sorted by tables, first rows and last rows.
    int table = -1;
    int64_t end = 0;  // of the table's rows so far
    for (auto at = found_.begin(); at != found_.end(); ++at) {
      const auto& [of, first, last] = at->first;
      if (of != table) end = 0;
      table = of;
      at->second = first < end;
      if (const auto next = std::next(at); next != found_.end()) {
        const auto& [next_of, next_first, next_last] = next->first;
        at->second |= next_of == of && next_first < last;
      }
      end = std::max(end, last);
    }
  }

  bool has(const Shard& shard) const { return found_.at(key_of(shard)); }

 private:
  using Key = std::tuple<int, int64_t, int64_t>;
  static Key key_of(const Shard& shard) { return {shard.table, shard.rows.begin, shard.rows.end}; }
  std::map<Key, bool> found_;
};

/// What depends on the rows of a shard alone. Many shards have as many rows of a table.
struct BytesOfRows {
  double vectors = 0;  ///< for which their owner has room
  double routed = 0;   ///< bytes of an owner
};
class ShardBytes {
 public:
  ShardBytes(const RunConfig& config, int world)
      : config_(config), world_(world), types_(model_types(config)) {}

  const TableConfig& table(const Shard& shard) const {
    return config_.model.tables[static_cast<size_t>(shard.table)];
  }
  const BytesOfRows& of(const Shard& shard) {
    const int64_t rows = shard.rows.size();
    const auto [known, is_new] = known_.try_emplace({shard.table, rows});
    if (is_new) {
      known->second = {vector_room_of_all(config_, table(shard), rows, world_),
                       routed_bytes(config_, table(shard), rows, config_.train.global_batch_size,
                                    world_, types_.key_bytes)};
    }
    return known->second;
  }
  /// Of the vectors that the owner returns.
  double owned(const Shard& shard) {
    const int64_t rows = shard.rows.size(), width = shard.columns.size();
    const WireConfig sent = vector_types(config_, table(shard), rows, width, types_.gradient);
    return of(shard).vectors * static_cast<double>(width) * owned_float_bytes(sent);
  }

 private:
  const RunConfig& config_;
  const int world_;
  const ModelTypes types_;
  std::map<std::pair<int, int64_t>, BytesOfRows> known_;  ///< by table and rows
};

void add_shard_memory(const RunConfig& config, const Plan& plan, std::vector<RankMemory>& memory) {
  ShardBytes bytes(config, plan.world);
  const PartialOverlaps overlaps(plan);
  const OptimizerRule optimizer = config.train.sparse_optimizer.type;
  const bool local = pools_locally(config, plan);
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
    if (!local) own.exchange += bytes.owned(shard);
    if (plans_for_gpu(config)) {
      const bool ordered = shard.columns.size() < table.dim &&
                           (shard.tier == MemoryTier::kCached || overlaps.has(shard));
      own.exchange += gpu_square_sum_bytes(config, table, shard.rows.size(), shard.columns.size(),
                                           plan.world, ordered);
    }
    if (shares_ids(plan, i)) continue;
    own.routing += bytes.of(shard).routed;
  }
}

void add_node_sums(const RunConfig& config, const std::vector<NodeSum>& sums, int world,
                   std::vector<RankMemory>& memory) {
  const DType gradient = config.sent_types().backward;
  for (const NodeSum& sum : sums) {
    const TableConfig& table = config.model.tables[static_cast<size_t>(sum.table)];
    const auto width = static_cast<double>(sum.columns.size());
    const auto shards = static_cast<double>(sum.shards.size());
    for (size_t i = 0; i < sum.shards.size(); ++i) {
      const Shard& shard = sum.shards[i];
      const auto part = static_cast<double>(sum.part(i).size());
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
  if (pools_locally(config, plan)) return 0;
  const DType gradient = config.sent_types().backward;
  std::map<std::pair<int, int64_t>, double> known;  // vectors, by table and rows
  const auto vectors_of = [&](const Shard& shard) {
    const auto [found, is_new] = known.try_emplace({shard.table, shard.rows.size()});
    if (is_new) {
      found->second = vector_room(config, config.model.tables[static_cast<size_t>(shard.table)],
                                  shard.rows.size(), samples);
    }
    return found->second;
  };
  const auto bytes_of = [&](const Shard& shard, double vectors) {
    const TableConfig& table = config.model.tables[static_cast<size_t>(shard.table)];
    const int64_t width = shard.columns.size();
    const WireConfig sent = vector_types(config, table, shard.rows.size(), width, gradient);
    return vectors * static_cast<double>(width) * message_float_bytes(sent);
  };
  double bytes = 0;
  for (const Shard& shard : plan.shards) bytes += bytes_of(shard, vectors_of(shard));
  for (const NodeSum& sum : sums) {
    const TableConfig& table = config.model.tables[static_cast<size_t>(sum.table)];
    const auto vectors = static_cast<double>(samples) * static_cast<double>(table.features.size());
    bytes += bytes_of(sum.shards.front(), vectors);
    for (const Shard& shard : sum.shards) bytes -= bytes_of(shard, vectors_of(shard));
  }
  return bytes;
}

/// The first row of what each owner, or each sum of a node, returns says whether a table's vectors
/// are sums.
double row_sum_bytes(const RunConfig& config, const Plan& plan, const std::vector<NodeSum>& sums,
                     int64_t samples) {
  std::set<std::tuple<int, int64_t, int64_t>> summed;  // by table, first row and column
  std::set<int> cut;
  for (const NodeSum& sum : sums) {
    for (const Shard& shard : sum.shards) {
      summed.insert({shard.table, shard.rows.begin, shard.columns.begin});
    }
    if (sum.shards.front().rows.begin > 0) cut.insert(sum.table);
  }
  for (const Shard& shard : plan.shards) {
    const bool returned = !summed.contains({shard.table, shard.rows.begin, shard.columns.begin});
    if (returned && shard.rows.begin > 0) cut.insert(shard.table);
  }
  double bytes = 0;
  for (const int t : cut) {
    bytes += row_sum_bytes(config, config.model.tables[static_cast<size_t>(t)], samples);
  }
  return bytes;
}

void add_caches(const RunConfig& config, const Plan& plan, std::vector<RankMemory>& memory) {
  for (int rank = 0; rank < plan.world; ++rank) {
    const CacheBytes bytes = cache_bytes(config, plan, rank);
    RankMemory& own = memory[static_cast<size_t>(rank)];
    own.cache = bytes.slots;
    (plans_for_gpu(config) ? own.host_cache : own.cache) += bytes.rest;
  }
}

/// What a rank needs for its samples, whatever shards it has.
struct LocalBytes {
  double activations = 0, exchange = 0, input = 0;
};
LocalBytes local_bytes(const RunConfig& config, const Plan& plan, const std::vector<NodeSum>& sums,
                       int64_t samples) {
  return {activation_bytes(config, samples),
          local_exchange_bytes(config, samples) + message_bytes(config, plan, sums, samples) +
              row_sum_bytes(config, plan, sums, samples),
          input_bytes(config, samples)};
}

}  // namespace

std::vector<RankMemory> rank_memory(const RunConfig& config, const Plan& plan) {
  std::vector<RankMemory> memory(static_cast<size_t>(plan.world));
  add_shard_memory(config, plan, memory);
  const std::vector<NodeSum> sums = node_sums(config.model.tables, config.routing.mode, plan);
  add_node_sums(config, sums, plan.world, memory);
  add_caches(config, plan, memory);
  const bool on_devices = devices_exchange_ids(config, plan);
  double list_bytes = 0;   // per sample, of all shards
  double id_messages = 0;  // per sample, received by every rank
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    const Shard& shard = plan.shards[i];
    const TableConfig& table = config.model.tables[static_cast<size_t>(shard.table)];
    if (!shares_ids(plan, i)) list_bytes += returned_list_bytes(config, table, shard.rows, 1);
    const bool first = shard.rows.begin == 0 && shard.columns.begin == 0;
    if (on_devices && first) id_messages += gpu_message_bytes(config, table);
  }
  RankMemory replicated;
  const double key_bytes = model_types(config).key_bytes;
  for (int t : plan.data_parallel) {
    const TableConfig& table = config.model.tables[static_cast<size_t>(t)];
    const bool on_host =
        std::binary_search(plan.host_replicas.begin(), plan.host_replicas.end(), t);
    (on_host ? replicated.host_tables : replicated.tables) +=
        row_bytes(table, table.rows, table.dim);
    (on_host ? replicated.host_optimizer_state : replicated.optimizer_state) +=
        state_bytes(config.train.sparse_optimizer.type, table.rows, table.dim);
    replicated.exchange += replicated_gradient_bytes(config, table, plan.world);
    replicated.routing += routed_bytes(
        config, table, table.rows,
        part_of(config.train.global_batch_size, plan.world - 1, plan.world).size(), 1, key_bytes);
  }
  const double dense = dense_bytes(config), libraries = library_bytes(config);
  std::map<int64_t, LocalBytes> by_samples;  // of which there are two numbers
  for (int rank = 0; rank < plan.world; ++rank) {
    RankMemory& own = memory[static_cast<size_t>(rank)];
    const int64_t local = part_of(config.train.global_batch_size, rank, plan.world).size();
    const auto [known, is_new] = by_samples.try_emplace(local);
    LocalBytes& of_samples = known->second;
    if (is_new) of_samples = local_bytes(config, plan, sums, local);
    own.tables += replicated.tables;
    own.optimizer_state += replicated.optimizer_state;
    own.host_tables += replicated.host_tables;
    own.host_optimizer_state += replicated.host_optimizer_state;
    own.dense = dense;
    own.activations = of_samples.activations;
    own.exchange += replicated.exchange + of_samples.exchange;
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
