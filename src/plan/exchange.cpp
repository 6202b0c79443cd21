#include "exchange.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "dlrm/plan/id_exchange.h"
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

int64_t rounded(double count) { return std::llround(count); }
const TableConfig& table_of(const RunConfig& config, int table) {
  return config.model.tables[static_cast<size_t>(table)];
}

DType vector_type(const RunConfig& config, const Shard& shard) {
  return vector_type(config, table_of(config, shard.table), shard.rows.size(),
                     shard.columns.size());
}

/// The ids that an owner receives, and the vectors that it returns, per sample of another rank.
struct OwnerFlow {
  std::map<int64_t, double> heads;  ///< bytes of headers and codes, by samples of the message
  double ids = 0;
  double floats = 0;        ///< of pooled vectors
  double vector_bytes = 0;  ///< of these, as they are sent
};

/// The number of ranks that have so many samples. There are at most two numbers.
using RanksOfSize = std::map<int64_t, int>;

RanksOfSize ranks_of_size(const RunConfig& config, int world) {
  RanksOfSize ranks;
  for (int rank = 0; rank < world; ++rank) ++ranks[samples_of(config, rank, world)];
  return ranks;
}

void add_heads(const TableConfig& table, Range rows, const RanksOfSize& sizes, OwnerFlow& flow) {
  for (const auto& [samples, ranks] : sizes) {
    double& bytes = flow.heads[samples];
    for (const FeatureConfig& feature : table.features) {
      bytes += expected_head_bytes(feature, rows, table.rows, samples);
    }
  }
}

std::vector<OwnerFlow> flows_of(const RunConfig& config, const Plan& plan,
                                const RanksOfSize& sizes) {
  std::vector<OwnerFlow> flows(static_cast<size_t>(plan.world));
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    const Shard& shard = plan.shards[i];
    const TableConfig& table = table_of(config, shard.table);
    OwnerFlow& flow = flows[static_cast<size_t>(shard.rank)];
    const double floats = expected_vectors(config.routing.mode, table, shard.rows) *
                          static_cast<double>(shard.columns.size());
    flow.floats += floats;
    flow.vector_bytes += floats * static_cast<double>(size_of(vector_type(config, shard)));
    if (shares_ids(plan, i)) continue;
    if (config.routing.mode != RoutingMode::kFixed) add_heads(table, shard.rows, sizes, flow);
    flow.ids += hotness_of(table) * static_cast<double>(shard.rows.size()) /
                static_cast<double>(table.rows);
  }
  // Of summed columns a rank returns its part of every bag.
  for (const NodeSum& sum : node_sums(config.model.tables, config.routing.mode, plan)) {
    const TableConfig& table = table_of(config, sum.table);
    for (size_t i = 0; i < sum.shards.size(); ++i) {
      const Shard& shard = sum.shards[i];
      const double floats =
          static_cast<double>(table.features.size()) * static_cast<double>(sum.part(i).size()) -
          expected_vectors(config.routing.mode, table, shard.rows) *
              static_cast<double>(shard.columns.size());
      OwnerFlow& flow = flows[static_cast<size_t>(shard.rank)];
      flow.floats += floats;
      flow.vector_bytes += floats * static_cast<double>(size_of(vector_type(config, shard)));
    }
  }
  return flows;
}

/// With *fixed* routing every rank receives the ids of every sharded feature.
void gather_ids(const RunConfig& config, const Plan& plan, const RanksOfSize& sizes,
                std::vector<OwnerFlow>& flows) {
  std::vector<char> sharded(config.model.tables.size(), 0);
  for (const Shard& shard : plan.shards) sharded[static_cast<size_t>(shard.table)] = 1;
  OwnerFlow all;
  for (size_t t = 0; t < sharded.size(); ++t) {
    if (!sharded[t]) continue;
    const TableConfig& table = config.model.tables[t];
    add_heads(table, {0, table.rows}, sizes, all);
    all.ids += hotness_of(table);
  }
  for (OwnerFlow& flow : flows) {
    all.floats = flow.floats;
    all.vector_bytes = flow.vector_bytes;
    flow = all;
  }
}

int64_t id_bytes_of(const RunConfig& config, const Plan& plan) {
  int64_t largest = 0;
  for (const Shard& shard : plan.shards) {
    largest = std::max(largest, table_of(config, shard.table).rows);
  }
  return wire_id_bytes(largest);
}

}  // namespace

/// ReturnedParts has the same rule.
DType vector_type(const RunConfig& config, const TableConfig& table, int64_t rows, int64_t width) {
  const DType wire = config.train.wire.forward;
  if (wire != DType::kFloat32 || config.compute_type() != DType::kBFloat16) return wire;
  const bool divided =
      std::any_of(table.features.begin(), table.features.end(),
                  [](const FeatureConfig& feature) { return feature.pooling == Pooling::kMean; });
  return rows == table.rows && width % 2 == 0 && !divided ? DType::kBFloat16 : wire;
}

WireConfig vector_types(const RunConfig& config, const TableConfig& table, int64_t rows,
                        int64_t width, DType gradient) {
  return {vector_type(config, table, rows, width), gradient, config.train.wire.dense};
}

bool pools_locally(const RunConfig& config, const Plan& plan) {
  const auto is_whole = [&](const Shard& shard) {
    return shard.rows.size() == table_of(config, shard.table).rows;
  };
  return plan.world == 1 && std::all_of(plan.shards.begin(), plan.shards.end(), is_whole);
}

bool pools_locally(const TableConfig& table, int64_t rows, int world) {
  return world == 1 && rows == table.rows;
}

bool shares_ids(const Plan& plan, size_t i) {
  if (i == 0) return false;
  const Shard& a = plan.shards[i - 1];
  const Shard& b = plan.shards[i];
  return a.rank == b.rank && a.table == b.table && a.rows == b.rows;
}

std::vector<ExchangedBytes> exchanged_bytes(const RunConfig& config, const Plan& plan) {
  const RanksOfSize sizes = ranks_of_size(config, plan.world);
  std::vector<OwnerFlow> flows = flows_of(config, plan, sizes);
  if (config.routing.mode == RoutingMode::kFixed) gather_ids(config, plan, sizes, flows);
  const int64_t id_bytes = id_bytes_of(config, plan);
  const bool on_devices = devices_exchange_ids(config, plan);
  const auto message = [&](const OwnerFlow& flow, int64_t samples) {
    if (on_devices) return real(id_block_bytes(config.model.tables, plan, samples));
    const auto heads = flow.heads.find(samples);
    return static_cast<double>(
        id_message_bytes(heads == flow.heads.end() ? 0 : rounded(heads->second), 0, samples,
                         rounded(flow.ids * static_cast<double>(samples)), id_bytes));
  };
  const int64_t size_bytes =
      on_devices ? id_block_size_bytes(config.model.tables, plan) : kSizeBytes;
  const double announced = real(size_bytes) * (plan.world - 1);
  std::map<int64_t, double> to_all;  // ids, by samples
  double floats = 0, vector_bytes = 0;
  for (const OwnerFlow& flow : flows) {
    for (const auto& [samples, ranks] : sizes) to_all[samples] += message(flow, samples);
    floats += flow.floats;
    vector_bytes += flow.vector_bytes;
  }
  const double gradient = real(size_of(config.sent_types().backward));
  const double element = real(size_of(config.compute_type()));
  const double width = real(config.model.embedding_width());
  std::vector<ExchangedBytes> exchanged;
  for (int rank = 0; rank < plan.world; ++rank) {
    const OwnerFlow& own = flows[static_cast<size_t>(rank)];
    const int64_t samples = samples_of(config, rank, plan.world);
    const double mine = real(samples), others = real(config.train.global_batch_size - samples);
    double from_all = 0;
    for (const auto& [size, ranks] : sizes) from_all += ranks * message(own, size);
    exchanged.push_back({announced + to_all[samples] - message(own, samples),
                         announced + from_all - message(own, samples), others * own.vector_bytes,
                         mine * (vector_bytes - own.vector_bytes),
                         mine * (floats - own.floats) * gradient, others * own.floats * gradient,
                         mine * width * (element + (floats > 0 ? vector_bytes / floats : 0)),
                         mine * width * (element + gradient)});
  }
  return exchanged;
}

void add_exchange(const RunConfig& config, const Plan& plan, std::vector<RankLoad>& loads) {
  const NodeSumBytes sums = node_sum_bytes(config, plan);
  const std::vector<ExchangedBytes> exchanged = exchanged_bytes(config, plan);
  for (size_t rank = 0; rank < loads.size(); ++rank) {
    RankLoad& load = loads[rank];
    const ExchangedBytes& own = exchanged[rank];
    load.node_pooled_bytes = sums.partial[rank];
    load.node_gradient_bytes = sums.summed[rank];
    load.ids_sent_bytes = own.ids_sent;
    load.pooled_sent_bytes = own.vectors_sent + load.node_pooled_bytes;
    load.gradient_sent_bytes = own.gradients_sent + load.node_gradient_bytes;
    load.received_bytes = own.ids_received + own.vectors_received + own.gradients_received +
                          load.node_pooled_bytes + load.node_gradient_bytes;
  }
}

void add_square_sums(const RunConfig& config, const Plan& plan, std::vector<RankLoad>& loads) {
  if (!traits_of(config.train.sparse_optimizer.type).rowwise()) return;
  std::map<int, std::vector<Shard>> by_table;
  for (const Shard& shard : plan.shards) by_table[shard.table].push_back(shard);
  for (const auto& [t, shards] : by_table) {
    const TableConfig& table = table_of(config, t);
    const double unique = expected_unique_rows(
        table.rows, hotness_of(table) * static_cast<double>(config.train.global_batch_size),
        skew_of_ids(config));
    // The rows between two shard borders have the same owners, and each owner holds some of the
    // columns.
    std::map<int64_t, std::vector<std::pair<int, int>>> borders;  // owner and change, by row
    for (const Shard& shard : shards) {
      borders[shard.rows.begin].emplace_back(shard.rank, 1);
      borders[shard.rows.end].emplace_back(shard.rank, -1);
    }
    std::map<int, int> pieces;  // by owner
    int all = 0;
    for (auto border = borders.begin(); std::next(border) != borders.end(); ++border) {
      for (const auto& [rank, change] : border->second) {
        all += change;
        if ((pieces[rank] += change) == 0) pieces.erase(rank);
      }
      const int64_t rows = std::next(border)->first - border->first;
      const double bytes =
          4.0 * unique * static_cast<double>(rows) / static_cast<double>(table.rows);
      for (const auto& [rank, count] : pieces) {
        RankLoad& load = loads[static_cast<size_t>(rank)];
        load.gradient_sent_bytes += bytes * count * static_cast<double>(pieces.size() - 1);
        load.received_bytes += bytes * (all - count);
      }
    }
  }
}

void add_replica_exchange(const RunConfig& config, const Plan& plan, std::vector<RankLoad>& loads) {
  if (plan.world == 1) return;
  std::vector<const TableConfig*> gathered;
  int64_t reduced_floats = 0;
  for (const int t : plan.data_parallel) {
    const TableConfig& table = table_of(config, t);
    if (travels_by_pairs(config, table, plan.world)) {
      gathered.push_back(&table);
    } else {
      reduced_floats += table.rows * (table.dim + 1);
    }
  }
  std::map<int64_t, double> messages;  // by samples
  const auto message = [&](int64_t samples) {
    const auto known = messages.find(samples);
    if (known != messages.end()) return known->second;
    double rows = 0, floats = 0;
    for (const TableConfig* table : gathered) {
      const double unique = expected_unique_rows(
          table->rows, static_cast<double>(samples) * hotness_of(*table), skew_of_ids(config));
      rows += unique;
      floats += unique * static_cast<double>(table->dim);
    }
    const int64_t bytes =
        pairs_message_bytes(static_cast<int64_t>(gathered.size()), rounded(rows), rounded(floats));
    return messages[samples] = static_cast<double>(bytes);
  };
  double of_all = 0;
  for (int rank = 0; rank < plan.world; ++rank) {
    of_all += message(samples_of(config, rank, plan.world));
  }
  for (int rank = 0; rank < plan.world; ++rank) {
    RankLoad& load = loads[static_cast<size_t>(rank)];
    const double own = message(samples_of(config, rank, plan.world));
    // In an allreduce a rank receives as much as it sends, up to the rounding of parts.
    const auto reduced =
        static_cast<double>(allreduce_sent_bytes(reduced_floats, rank, plan.world));
    load.replicated_bytes += (plan.world - 1) * own + reduced;
    load.received_bytes += of_all - own + reduced;
  }
}

}  // namespace dlrm
