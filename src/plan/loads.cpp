#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include "dlrm/plan/node_sums.h"
#include "dlrm/plan/traffic.h"
#include "dlrm/wire/message_bytes.h"

#include "memory.h"
#include "numbers.h"

namespace dlrm {
namespace {

int64_t samples_of(const RunConfig& config, int rank, int world) {
  return part_of(config.train.global_batch_size, rank, world).size();
}

/// What an owner receives and returns per sample of another rank.
struct OwnerFlow {
  double id_bytes = 0;
  double floats = 0;        ///< of pooled vectors
  double vector_bytes = 0;  ///< of these, as they are sent

  /// `columns`: of all vectors of the shard.
  void add_vectors(const RunConfig& config, const Shard& shard, double columns) {
    floats += columns;
    vector_bytes += columns * real(size_of(vector_type(config, table_of(config, shard.table),
                                                       shard.rows.size(), shard.columns.size())));
  }
};

std::vector<OwnerFlow> flows_of(const RunConfig& config, const Plan& plan) {
  const RoutingMode mode = config.routing.mode;
  std::vector<OwnerFlow> flows(static_cast<size_t>(plan.world));
  const auto flow_of = [&](const Shard& shard) -> OwnerFlow& {
    return flows[static_cast<size_t>(shard.rank)];
  };
  const auto columns_of = [&](const TableConfig& table, const Shard& shard) {
    return expected_vectors(mode, table, shard.rows) * real(shard.columns.size());
  };
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    const Shard& shard = plan.shards[i];
    const TableConfig& table = table_of(config, shard.table);
    flow_of(shard).add_vectors(config, shard, columns_of(table, shard));
    if (mode == RoutingMode::kFixed || shares_ids(plan, i)) continue;
    flow_of(shard).id_bytes += id_bytes_per_sample(table, shard.rows);
  }
  // Of summed columns a rank returns its part of every bag.
  for (const NodeSum& sum : node_sums(config.model.tables, mode, plan)) {
    const TableConfig& table = table_of(config, sum.table);
    for (size_t i = 0; i < sum.shards.size(); ++i) {
      const double part = real(table.features.size()) * real(sum.part(i).size());
      flow_of(sum.shards[i])
          .add_vectors(config, sum.shards[i], part - columns_of(table, sum.shards[i]));
    }
  }
  if (mode != RoutingMode::kFixed) return flows;
  // Every rank receives the ids of every sharded feature.
  const std::vector<char> sharded = sharded_tables(config.model.tables, plan);
  double all = 0;
  for (size_t t = 0; t < sharded.size(); ++t) {
    const TableConfig& table = config.model.tables[t];
    if (sharded[t]) all += id_bytes_per_sample(table, {0, table.rows});
  }
  for (OwnerFlow& flow : flows) flow.id_bytes = all;
  return flows;
}

/// What ranks send to other ranks of their node for node sums: forward the columns that these sum,
/// backward those that they sum themselves, to the ranks of all other shards.
void add_node_sums(const RunConfig& config, const Plan& plan, std::vector<RankLoad>& loads) {
  const auto batch = real(config.train.global_batch_size);
  for (const NodeSum& sum : node_sums(config.model.tables, config.routing.mode, plan)) {
    const double column = 4.0 * batch * real(table_of(config, sum.table).features.size());
    for (size_t i = 0; i < sum.shards.size(); ++i) {
      RankLoad& load = loads[static_cast<size_t>(sum.shards[i].rank)];
      const auto own = real(sum.part(i).size());
      load.node_pooled_bytes += column * (real(sum.columns.size()) - own);
      load.node_gradient_bytes += column * own * real(sum.shards.size() - 1);
    }
  }
}

/// Adds the bytes of ids, pooled vectors and their gradients, with those of node sums.
void add_exchange(const RunConfig& config, const Plan& plan, std::vector<RankLoad>& loads) {
  const std::vector<OwnerFlow> flows = flows_of(config, plan);
  OwnerFlow all;
  for (const OwnerFlow& flow : flows) {
    all.id_bytes += flow.id_bytes;
    all.floats += flow.floats;
    all.vector_bytes += flow.vector_bytes;
  }
  const double gradient = real(size_of(config.sent_types().backward));
  for (size_t rank = 0; rank < loads.size(); ++rank) {
    const OwnerFlow& own = flows[rank];
    const int64_t samples = samples_of(config, static_cast<int>(rank), plan.world);
    const double mine = real(samples), others = real(config.train.global_batch_size - samples);
    RankLoad& load = loads[rank];
    const double in_node = load.node_pooled_bytes, back_in_node = load.node_gradient_bytes;
    load.ids_sent_bytes = mine * (all.id_bytes - own.id_bytes);
    load.ids_received_bytes = others * own.id_bytes;
    load.pooled_sent_bytes = others * own.vector_bytes + in_node;
    load.pooled_received_bytes = mine * (all.vector_bytes - own.vector_bytes) + back_in_node;
    load.gradient_sent_bytes = mine * (all.floats - own.floats) * gradient + back_in_node;
    load.gradient_received_bytes = others * own.floats * gradient + in_node;
  }
}

/// Adds the bytes of sums of squares that owners of column shards exchange for row-wise Adagrad.
void add_square_sums(const RunConfig& config, const Plan& plan, std::vector<RankLoad>& loads) {
  if (!needs_row_norms(config.train.sparse_optimizer)) return;
  // The rows between two shard borders have the same owners, and each owner holds some of the
  // columns.
  std::map<std::pair<int, int64_t>, std::vector<std::pair<int, int>>> borders;  // by table and row
  for (const Shard& shard : plan.shards) {
    borders[{shard.table, shard.rows.begin}].emplace_back(shard.rank, 1);
    borders[{shard.table, shard.rows.end}].emplace_back(shard.rank, -1);
  }
  std::map<int, int> pieces;  // of the columns, by owner
  int all = 0;
  double unique = 0;  // of the table's rows
  for (auto border = borders.begin(); border != borders.end(); ++border) {
    const auto& [t, row] = border->first;
    const TableConfig& table = table_of(config, t);
    if (pieces.empty()) {
      const double ids = hotness_of(table) * real(config.train.global_batch_size);
      unique = expected_unique_rows(table.rows, ids, skew_of_ids(config));
    }
    for (const auto& [rank, change] : border->second) {
      all += change;
      if ((pieces[rank] += change) == 0) pieces.erase(rank);
    }
    if (pieces.empty()) continue;
    const int64_t rows = std::next(border)->first.second - row;
    const double bytes = 4.0 * unique * real(rows) / real(table.rows);
    for (const auto& [rank, count] : pieces) {
      RankLoad& load = loads[static_cast<size_t>(rank)];
      load.gradient_sent_bytes += bytes * count * real(pieces.size() - 1);
      load.gradient_received_bytes += bytes * (all - count);
    }
  }
}

/// Adds the bytes of gradients of data-parallel tables.
void add_replica_exchange(const RunConfig& config, const Plan& plan, std::vector<RankLoad>& loads) {
  std::vector<double> pairs(loads.size());  // bytes, by rank
  int64_t reduced_floats = 0;
  for (const int t : plan.data_parallel) {
    const TableConfig& table = table_of(config, t);
    if (!travels_by_pairs(config, table, plan.world)) {
      reduced_floats += table.rows * (table.dim + 1);
      continue;
    }
    // There are at most two numbers of samples.
    std::map<int64_t, double> known;
    for (int rank = 0; rank < plan.world; ++rank) {
      const int64_t samples = samples_of(config, rank, plan.world);
      const auto [found, is_new] = known.try_emplace(samples);
      if (is_new) {
        found->second =
            pair_bytes(table) * expected_unique_rows(table.rows, real(samples) * hotness_of(table),
                                                     skew_of_ids(config));
      }
      pairs[static_cast<size_t>(rank)] += found->second;
    }
  }
  const double of_all = std::accumulate(pairs.begin(), pairs.end(), 0.0);
  for (int rank = 0; rank < plan.world; ++rank) {
    RankLoad& load = loads[static_cast<size_t>(rank)];
    const double own = pairs[static_cast<size_t>(rank)];
    // In an allreduce a rank receives as much as it sends, up to the rounding of parts.
    const double reduced = real(allreduce_sent_bytes(reduced_floats, rank, plan.world));
    load.replicated_bytes += (plan.world - 1) * own + reduced;
    load.replicated_received_bytes += of_all - own + reduced;
  }
}

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

}  // namespace

std::vector<RankLoad> rank_loads(const RunConfig& config, const Plan& plan) {
  std::vector<RankLoad> loads(static_cast<size_t>(plan.world));
  add_lookups(config, plan, loads);
  add_node_sums(config, plan, loads);
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
