#include "dlrm/plan/launches.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <variant>

#include "dlrm/core/partition.h"
#include "dlrm/plan/id_exchange.h"
#include "dlrm/plan/node_sums.h"
#include "dlrm/plan/traffic.h"
#include "dlrm/wire/gradient_buckets.h"
#include "dlrm/wire/message_bytes.h"
#include "dlrm/wire/returned_parts.h"

#include "exchange.h"
#include "simulate/step_work.h"

namespace dlrm {
namespace {

/// Of an embedding_update kernel: longer runs of equal ids are summed by launches of their own.
constexpr double kLongRun = 64;

void add(int kernels, int library_calls, int fills, StepLaunches& to) {
  to.kernels += kernels;
  to.library_calls += library_calls;
  to.fills += fills;
}

/// An activation that no product computes. The library does not compute the slope of silu.
void add_activation(Activation act, bool backward, StepLaunches& to) {
  if (act == Activation::kNone) return;
  const bool in_library = act == Activation::kSigmoid || act == Activation::kTanh ||
                          (act == Activation::kSilu && !backward);
  in_library ? add(0, 1, 0, to) : add(1, 0, 0, to);
}

/// The launches of dense layers, which are the same on all ranks.
class DenseLaunches {
 public:
  explicit DenseLaunches(const RunConfig& config)
      : bf16_(config.train.precision == Precision::kBf16) {
    const ModelConfig& model = config.model;
    const bool has_bottom = !model.bottom_mlp.empty();
    if (model.dense_features > 0) add(1, 0, 0, all_.bottom);
    mlp(model.bottom_mlp, model.activation, model.activation,
        {model.dropout.bottom > 0, model.layer_norm.bottom}, false, all_.bottom);
    const InteractionInputs in = model.interaction_inputs();
    std::visit([&](const auto& interaction) { interact(interaction, in, has_bottom); },
               model.interaction);
    mlp(model.top_mlp, model.activation, Activation::kNone,
        {model.dropout.top > 0, model.layer_norm.top}, true, all_.top);
    add(3, 0, 0, all_.loss);
    add(2, 0, 0, all_.update_dense);  // checks
    if (config.train.clip_norm > 0) add(3, 0, 0, all_.update_dense);
    const bool tensorwise = traits_of(config.train.dense_optimizer.type).tensorwise();
    add(tensorwise ? 3 * tensors_ : 1, 0, 0, all_.update_dense);
  }

  const StageLaunches& all() const { return all_; }

 private:
  bool is_fused(Activation act) const {
    return act == Activation::kNone || act == Activation::kRelu ||
           (act == Activation::kGelu && bf16_);
  }

  /// What hidden layers have. With either they share no pass with the layer above.
  struct Hidden {
    bool drops, norms;
  };
  void mlp(const std::vector<int64_t>& outputs, Activation act, Activation last, Hidden hidden,
           bool has_dx, StepLaunches& forward) {
    StepLaunches& backward = all_.input_gradients;
    tensors_ += 2 * static_cast<int>(outputs.size());
    const auto act_of = [&](size_t i) { return i + 1 == outputs.size() ? last : act; };
    for (size_t i = 0; i < outputs.size(); ++i) {
      outputs[i] == 1 ? add(1, 0, 0, forward) : add(0, 1, 0, forward);
      const bool is_hidden = i + 1 < outputs.size(), norms = hidden.norms && is_hidden;
      if (norms) add(1, 0, 0, forward), tensors_ += 2;
      if (norms || outputs[i] == 1 || !is_fused(act_of(i))) {
        add_activation(act_of(i), false, forward);
      }
      if (hidden.drops && is_hidden) add(1, 0, 0, forward);
    }
    bool is_dz = false, has_dbias = false;
    for (size_t i = outputs.size(); i-- > 0;) {
      if (!is_dz) add_activation(act_of(i), true, backward);
      if (hidden.norms && i + 1 < outputs.size()) add(3, 0, 0, backward);
      is_dz = i > 0 && !hidden.drops && !hidden.norms;
      if (i > 0 && hidden.drops) add(1, 0, 0, backward);
      const Activation below = is_dz ? act_of(i - 1) : Activation::kNone;
      if (outputs[i] == 1) {
        add(1, 0, 0, backward);
        add(1, 0, 0, all_.weight_gradients);
        has_dbias = is_dz && (below == Activation::kNone || below == Activation::kRelu);
        if (!has_dbias) add_activation(below, true, backward);
        continue;
      }
      add(has_dbias ? 0 : 2, 1, 0, all_.weight_gradients);
      has_dbias = false;
      if (i == 0 && !has_dx) continue;
      add(0, 1, 0, backward);
      if (i == 0) continue;
      if (below != Activation::kRelu) {
        add_activation(below, true, backward);
      } else if (!bf16_) {
        add(2, 0, 0, backward);
        has_dbias = true;
      }
    }
  }

  /// Forward and backward.
  void copy_x(const InteractionInputs& in, bool has_bottom) {
    if (in.dense == 0) return;
    add(1, 0, 0, all_.interact);
    if (has_bottom) add(1, 0, 0, all_.input_gradients);
  }
  /// A kernel each.
  void both_ways() {
    add(1, 0, 0, all_.interact);
    add(1, 0, 0, all_.input_gradients);
  }
  void interact(const ConcatConfig& concat, const InteractionInputs& in, bool has_bottom) {
    copy_x(in, has_bottom);
    if (!concat.embeddings_in_place()) both_ways();
  }
  void interact(const CrossConfig& cross, const InteractionInputs& in, bool has_bottom) {
    copy_x(in, has_bottom);
    const auto layers = static_cast<int>(cross.layers);
    add(layers, 2 * layers, 0, all_.interact);
    add(layers, 2 * layers, 0, all_.input_gradients);
    add(2 * layers, 2 * layers, 0, all_.weight_gradients);
    tensors_ += 3 * layers;
  }
  void interact(const DotConfig&, const InteractionInputs& in, bool) {
    both_ways();
    if (in.dense == 0) add(1, 0, 0, all_.input_gradients);
  }
  void interact(const FmConfig&, const InteractionInputs&, bool) { both_ways(); }

  const bool bf16_;
  StageLaunches all_;
  int tensors_ = 0;
};

/// The launches of tables and their vectors.
class TableLaunches {
 public:
  TableLaunches(const RunConfig& config, const Plan& plan)
      : config_(config),
        plan_(plan),
        shards_(static_cast<size_t>(plan.world)),
        sums_(node_sums(config.model.tables, config.routing.mode, plan)),
        selects_ids_(devices_exchange_ids(config, plan)),
        parts_(parts_of_vectors()),
        sent_gradient_(config.sent_types().backward) {
    for (const NodeSum& sum : sums_) {
      for (const Shard& shard : sum.shards) summed_.insert(key_of(shard));
    }
    for (const TableConfig& table : config.model.tables) {
      most_rows_ = std::max(most_rows_, table.rows);
    }
    for (const Shard& shard : plan.shards) {
      most_sharded_rows_ = std::max(most_sharded_rows_, table_of(shard.table).rows);
    }
    find_cut_columns();
    copies_ = launches_of_copies();
  }

  int collectives() const {
    if (plan_.world == 1) return 0;
    int count = plan_.data_parallel.empty() ? 0 : 1;
    if (!plan_.shards.empty()) count += parts_.count() + 1;
    if (!plan_.shards.empty() && selects_ids_) ++count;
    if (cuts_columns_) ++count;
    return sums_.empty() ? count : count + 2;
  }

  void add_to(int rank, StageLaunches& all) const {
    const std::vector<Shard>& mine = shards_[static_cast<size_t>(rank)];
    const bool copied = !plan_.data_parallel.empty();
    ids(mine, all.ids);
    lookups(rank, all.lookup);
    if (!mine.empty()) add(5, 2, 0, all.sort);
    if (copied) add(5, 2, 0, all.sort);
    exchange(all);
    update(mine, all.update_rows);
    if (copied) update_copies(all);
  }

 private:
  using ShardKey = std::tuple<int, int64_t, int64_t>;
  static ShardKey key_of(const Shard& shard) {
    return {shard.table, shard.rows.begin, shard.columns.begin};
  }
  const TableConfig& table_of(int table) const {
    return config_.model.tables[static_cast<size_t>(table)];
  }
  /// Bags are pooled in E, and nothing is sent.
  bool is_local() const { return pools_locally(config_, plan_); }
  bool cuts(const Shard& shard) const {
    return is_rowwise() && shard.columns.size() != table_of(shard.table).dim;
  }
  bool is_rowwise() const { return traits_of(config_.train.sparse_optimizer.type).rowwise(); }

  /// Sorts shards as their owners do.
  ReturnedParts parts_of_vectors() {
    for (const Shard& shard : plan_.shards) {
      if (shard.rows.size() == 0 || shard.columns.size() == 0) continue;
      shards_[static_cast<size_t>(shard.rank)].push_back(shard);
    }
    const auto order = [](const Shard& s) {
      return std::tuple(s.table, s.rows.begin, s.rows.end, s.columns.begin);
    };
    std::vector<std::vector<ReturnedShard>> returned;
    for (std::vector<Shard>& mine : shards_) {
      std::sort(mine.begin(), mine.end(),
                [&](const Shard& a, const Shard& b) { return order(a) < order(b); });
      returned.emplace_back();
      for (const Shard& shard : mine) returned.back().push_back(returned_of(shard));
    }
    const bool one = plan_.world == 1 || !sums_.empty();
    return {std::move(returned), one ? 1 : 2};
  }
  ReturnedShard returned_of(const Shard& shard) const {
    const TableConfig& table = table_of(shard.table);
    const auto width = static_cast<double>(shard.columns.size());
    const double share = static_cast<double>(shard.rows.size()) / static_cast<double>(table.rows);
    const DType type = vector_type(config_, table, shard.rows.size(), shard.columns.size());
    return {width * hotness_of(table) * share, width * static_cast<double>(table.features.size()),
            config_.train.wire.forward == DType::kFloat32 && type == DType::kBFloat16};
  }

  void find_cut_columns() {
    std::map<int, std::set<std::pair<int64_t, int64_t>>> rows;
    for (const Shard& shard : plan_.shards) {
      if (!cuts(shard)) continue;
      cuts_columns_ = true;
      rows[shard.table].insert({shard.rows.begin, shard.rows.end});
    }
    for (const auto& [table, ranges] : rows) {
      int64_t end = 0;
      for (const auto& range : ranges) {
        if (range.first < end) orders_.insert(table);
        end = std::max(end, range.second);
      }
    }
  }

  void ids(const std::vector<Shard>& mine, StepLaunches& all) const {
    const bool copied = !plan_.data_parallel.empty();
    if (is_local()) {
      if (most_rows_ <= kMostInt32) add(1, 0, 0, all);
    } else {
      const bool fixed = config_.routing.mode == RoutingMode::kFixed;
      if (copied && most_rows_ <= kMostInt32) add(1, 0, 0, all);
      if (!mine.empty() && selects_ids_) {
        add(3, 2, 0, all);
      } else if (!mine.empty() && !fixed && wire_id_bytes(most_sharded_rows_) == 4) {
        add(1, 0, 0, all);
      }
    }
    add(2, 0, 1, all);
  }

  void lookups(int rank, StepLaunches& all) const {
    const std::vector<Shard>& mine = shards_[static_cast<size_t>(rank)];
    std::set<std::tuple<int, bool, DType>> launches;  // by part, memory and type
    for (size_t s = 0; s < mine.size(); ++s) {
      launches.insert({parts_.part_of(rank, static_cast<int>(s)), mine[s].tier == MemoryTier::kHost,
                       type_of(mine[s])});
    }
    const int last = parts_.count() == 1 ? 0 : parts_.count();
    for (const int t : plan_.data_parallel) {
      launches.insert({last, is_host_copy(t), config_.compute_type()});
    }
    add(static_cast<int>(launches.size()), 0, 0, all);
  }
  /// In which a shard's vectors are computed.
  DType type_of(const Shard& shard) const {
    if (is_local()) return config_.compute_type();
    if (summed_.contains(key_of(shard))) return DType::kFloat32;
    return pooled_as(
        vector_type(config_, table_of(shard.table), shard.rows.size(), shard.columns.size()));
  }
  /// Of the gradients of its vectors.
  DType gradient_type(const Shard& shard) const {
    if (is_local()) return config_.compute_type();
    return summed_.contains(key_of(shard)) ? DType::kFloat32 : sent_gradient_;
  }
  bool is_host_copy(int table) const {
    const auto& host = plan_.host_replicas;
    return std::find(host.begin(), host.end(), table) != host.end();
  }

  /// Vectors, and their gradients.
  void exchange(StageLaunches& all) const {
    if (is_local() || plan_.shards.empty()) return;
    add(copies_, 0, 0, all.returned);
    add(1, 0, 0, all.sent_gradients);
    if (config_.train.wire.forward == DType::kFloat16) add(parts_.count(), 0, 0, all.lookup);
    if (!sums_.empty()) add(6, 0, 0, all.node_sums);
  }

  /// Vectors of bf16 E that are sums of several shards are added before the others are copied.
  int launches_of_copies() const {
    if (plan_.shards.empty()) return 0;
    return config_.compute_type() != DType::kFloat32 && adds_vectors() ? 2 : 1;
  }
  /// True if a feature's vectors are sums. Bags of one id are not, if shards return only those.
  bool adds_vectors() const {
    std::vector<char> cut(config_.model.tables.size()), skip(cut.size(), 1);
    for (const std::vector<Shard>& mine : shards_) {
      for (const Shard& shard : mine) {
        const auto t = static_cast<size_t>(shard.table);
        const bool in_node = summed_.contains(key_of(shard));
        cut[t] |= shard.rows.begin > 0 && !in_node;
        skip[t] &= !in_node && returns_only_non_empty_bags(config_.routing.mode, 1, shard.rows,
                                                           table_of(shard.table).rows);
      }
    }
    for (const NodeSum& sum : sums_) {
      const Shard& first = sum.shards.front();
      cut[static_cast<size_t>(first.table)] |= first.rows.begin > 0;
    }
    for (size_t t = 0; t < cut.size(); ++t) {
      if (!cut[t]) continue;
      for (const FeatureConfig& feature : config_.model.tables[t].features) {
        if (feature.hotness > 1 || !skip[t]) return true;
      }
    }
    return false;
  }

  void update(const std::vector<Shard>& mine, StepLaunches& all) const {
    std::map<std::pair<bool, DType>, bool> launches;  // whether they have long runs
    bool sums = false, orders = false;
    for (const Shard& shard : mine) {
      const bool is_long = ids_of(shard) > kLongRun;
      if (cuts(shard)) {
        add(3, 0, 0, all);
        if (is_long) add_long_runs(all);
        sums = true;
        orders |= orders_.contains(shard.table);
        continue;
      }
      launches[{shard.tier == MemoryTier::kHost, gradient_type(shard)}] |= is_long;
    }
    for (const auto& [launch, is_long] : launches) {
      add(1, 0, 0, all);
      if (is_long) add_long_runs(all);
    }
    if (sums) add(orders ? 4 : 2, 0, 0, all);
  }
  void update_copies(StageLaunches& all) const {
    bool on_device = false, on_host = false, is_long = false;
    for (const int t : plan_.data_parallel) {
      const auto batch = static_cast<double>(config_.train.global_batch_size);
      is_long |= batch / plan_.world * hotness_of(table_of(t)) > kLongRun;
      (is_host_copy(t) ? on_host : on_device) = true;
    }
    if (plan_.world == 1) {
      add(static_cast<int>(on_device) + static_cast<int>(on_host), 0, 0, all.update_rows);
      if (is_long) add_long_runs(all.update_rows);
      return;
    }
    add(1, 0, 1, all.copy_gradients);
    add(1, 0, 0, all.update_copies);
    if (is_long) add_long_runs(all.copy_gradients);
  }
  static void add_long_runs(StepLaunches& all) { add(2, 0, 1, all); }
  double ids_of(const Shard& shard) const {
    const TableConfig& table = table_of(shard.table);
    const double ids = static_cast<double>(config_.train.global_batch_size) * hotness_of(table);
    return ids * static_cast<double>(shard.rows.size()) / static_cast<double>(table.rows);
  }

  static constexpr int64_t kMostInt32 = int64_t{1} << 31;

  const RunConfig& config_;
  const Plan& plan_;
  std::vector<std::vector<Shard>> shards_;  ///< by rank
  const std::vector<NodeSum> sums_;
  const bool selects_ids_;  ///< devices exchange the ids
  const ReturnedParts parts_;
  std::set<ShardKey> summed_;
  const DType sent_gradient_;
  int64_t most_rows_ = 0, most_sharded_rows_ = 0;
  bool cuts_columns_ = false;
  std::set<int> orders_;  ///< tables whose cut columns have rows with different borders
  int copies_ = 0;
};

int buckets_of_layers(const RunConfig& config) {
  return static_cast<int>(dense_work(config, true).bucket_bytes.size());
}

/// The last bucket may have the gradients of data-parallel tables, too.
int collectives_of_layers(const RunConfig& config, const Plan& plan) {
  if (plan.world == 1) return 0;
  const int buckets = buckets_of_layers(config);
  const DType wire = config.train.wire.dense;
  const bool joined =
      !plan.data_parallel.empty() && joins_last_bucket(static_cast<size_t>(buckets), wire);
  if (wire == DType::kFloat32) return joined ? buckets - 1 : buckets;
  return 2 * buckets;
}

std::vector<StageLaunches> stages_of(const RunConfig& config, const Plan& plan,
                                     const TableLaunches& tables) {
  StageLaunches dense = DenseLaunches(config).all();
  const bool narrow = config.train.wire.dense != DType::kFloat32;
  if (narrow && plan.world > 1) {
    add(3 * buckets_of_layers(config), 0, 0, dense.weight_gradients);
  }
  std::vector<StageLaunches> stages(static_cast<size_t>(plan.world), dense);
  for (int rank = 0; rank < plan.world; ++rank) {
    tables.add_to(rank, stages[static_cast<size_t>(rank)]);
  }
  return stages;
}

}  // namespace

StepLaunches StageLaunches::all() const {
  StepLaunches sum;
  for (const StepLaunches* stage :
       {&ids, &lookup, &bottom, &returned, &sort, &interact, &top, &loss, &input_gradients,
        &weight_gradients, &sent_gradients, &copy_gradients, &update_rows, &update_copies,
        &update_dense, &node_sums}) {
    add(stage->kernels, stage->library_calls, stage->fills, sum);
  }
  return sum;
}

std::vector<StageLaunches> stage_launches(const RunConfig& config, const Plan& plan) {
  return stages_of(config, plan, TableLaunches(config, plan));
}

std::vector<StepLaunches> step_launches(const RunConfig& config, const Plan& plan) {
  const TableLaunches tables(config, plan);
  std::vector<StepLaunches> launches;
  for (const StageLaunches& rank : stages_of(config, plan, tables)) launches.push_back(rank.all());
  const int collectives = collectives_of_layers(config, plan) + tables.collectives();
  for (StepLaunches& rank : launches) rank.collectives = collectives;
  return launches;
}

}  // namespace dlrm
