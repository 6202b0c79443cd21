#include "node_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "dlrm/plan/traffic.h"

#include "shards.h"

namespace dlrm {
namespace {

/// A new numbering must spare this multiple of the vectors that the old one spares.
constexpr double kWorthMoving = 1.02;
/// Of the ranks with shards of the same table and columns, so many are looked at for each node.
constexpr size_t kMostPartners = 64;

/// Bytes of vectors and gradients that leave nodes no more, of all nodes together.
double spared_bytes(const RunConfig& config, const Plan& plan) {
  const WireConfig& wire = config.train.wire;
  double vectors = 0;
  for (const NodeSum& sum : node_sums(config.model.tables, config.routing.mode, plan)) {
    const TableConfig& table = config.model.tables[static_cast<size_t>(sum.table)];
    double spared = -static_cast<double>(table.features.size());
    for (const Shard& shard : sum.shards) {
      spared += expected_vectors(config.routing.mode, table, shard.rows);
    }
    vectors += spared * static_cast<double>(sum.columns.size());
  }
  const double elsewhere = 1 - static_cast<double>(plan.ranks_per_node) / plan.world;
  return vectors * static_cast<double>(config.train.global_batch_size) * elsewhere *
         static_cast<double>(size_of(wire.forward) + size_of(wire.backward));
}

/// Seconds of a step that the sums of `plan` spare on the network, less what they take on nodes.
double spared_seconds(const RunConfig& config, const Plan& plan, const CostModel& cost) {
  const double spared = spared_bytes(config, plan);
  if (spared <= 0) return 0;
  const int nodes = (plan.world + plan.ranks_per_node - 1) / plan.ranks_per_node;
  const NodeSumBytes bytes = node_sum_bytes(config, plan);
  double most = 0;
  for (size_t rank = 0; rank < bytes.partial.size(); ++rank) {
    most = std::max(most, bytes.partial[rank] + bytes.summed[rank]);
  }
  return spared / nodes / cost.speed().network - cost.node_sum(most) - cost.exchanges_of_sums();
}

/// Row shards of a table with the same columns or of the same shape, and the vectors that their
/// ranks return.
struct Family {
  std::vector<std::pair<int, double>> ranks;
  int node = -1;  ///< that looked at it last
};

/// Assigns ranks to nodes, one node after the other. A node takes the rank with most vectors for
/// sums with those that it has.
class NodeGathering {
 public:
  using Key = std::tuple<int, int64_t, int64_t>;
  static Key by_columns(const Shard& s) { return {s.table, s.columns.begin, s.columns.end}; }
  static Key by_shape(const Shard& s) { return {s.table, s.rows.size(), s.columns.size()}; }

  /// Shards of equal keys are to lie together.
  NodeGathering(const RunConfig& config, const Plan& plan, Key (*key)(const Shard&))
      : of_rank_(static_cast<size_t>(plan.world)),
        vectors_(static_cast<size_t>(plan.world), 0),
        near_(static_cast<size_t>(plan.world), 0),
        taken_(static_cast<size_t>(plan.world), 0) {
    std::map<Key, int> known;
    for (const Shard& shard : plan.shards) {
      const TableConfig& table = config.model.tables[static_cast<size_t>(shard.table)];
      if (shard.rows.size() == table.rows) continue;
      const auto next = static_cast<int>(families_.size());
      const auto [found, is_new] = known.try_emplace(key(shard), next);
      if (is_new) families_.emplace_back();
      const double vectors = expected_vectors(config.routing.mode, table, shard.rows) *
                             static_cast<double>(shard.columns.size());
      families_[static_cast<size_t>(found->second)].ranks.emplace_back(shard.rank, vectors);
      of_rank_[static_cast<size_t>(shard.rank)].push_back(found->second);
    }
    for (const Family& family : families_) {
      for (const auto& [rank, vectors] : family.ranks) {
        if (family.ranks.size() > 1) vectors_[static_cast<size_t>(rank)] += vectors;
      }
    }
    seeds_.resize(vectors_.size());
    std::iota(seeds_.begin(), seeds_.end(), 0);
    std::stable_sort(seeds_.begin(), seeds_.end(), [&](int a, int b) {
      return vectors_[static_cast<size_t>(a)] > vectors_[static_cast<size_t>(b)];
    });
  }

  /// The ranks in their new order.
  std::vector<int> order(int ranks_per_node) {
    std::vector<int> order;
    auto seed = seeds_.begin();
    for (int node = 0; order.size() < vectors_.size(); ++node) {
      for (const int rank : touched_) near_[static_cast<size_t>(rank)] = 0;
      touched_.clear();
      const size_t first = order.size();
      while (order.size() < vectors_.size() &&
             order.size() < first + static_cast<size_t>(ranks_per_node)) {
        int next = nearest();
        if (next < 0) {
          while (taken_[static_cast<size_t>(*seed)]) ++seed;
          next = *seed;
        }
        take(next, node);
        order.push_back(next);
      }
      std::sort(order.begin() + static_cast<std::ptrdiff_t>(first), order.end());
    }
    return order;
  }

 private:
  int nearest() const {
    int best = -1;
    for (const int rank : touched_) {
      if (taken_[static_cast<size_t>(rank)]) continue;
      const double near = near_[static_cast<size_t>(rank)];
      const double nearest = best < 0 ? 0 : near_[static_cast<size_t>(best)];
      if (near > nearest || (near == nearest && rank < best)) best = rank;
    }
    return best;
  }

  void take(int rank, int node) {
    taken_[static_cast<size_t>(rank)] = 1;
    for (const int f : of_rank_[static_cast<size_t>(rank)]) {
      Family& family = families_[static_cast<size_t>(f)];
      if (family.node == node) continue;
      family.node = node;
      size_t looked_at = 0;
      for (const auto& [other, vectors] : family.ranks) {
        if (taken_[static_cast<size_t>(other)]) continue;
        if (++looked_at > kMostPartners) break;
        double& near = near_[static_cast<size_t>(other)];
        if (near == 0) touched_.push_back(other);
        near += vectors;
      }
      // Ranks of full nodes are not looked at again.
      std::erase_if(family.ranks,
                    [&](const auto& r) { return taken_[static_cast<size_t>(r.first)] != 0; });
    }
  }

  std::vector<Family> families_;
  std::vector<std::vector<int>> of_rank_;  ///< families of each rank
  std::vector<double> vectors_;            ///< of each rank, for sums with any other
  std::vector<double> near_;  ///< of each rank, for sums with the node that is being filled
  std::vector<int> touched_;  ///< the ranks that have such
  std::vector<char> taken_;
  std::vector<int> seeds_;
};

Plan renumbered(const Plan& plan, const std::vector<int>& order) {
  std::vector<int> number(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    number[static_cast<size_t>(order[i])] = static_cast<int>(i);
  Plan result = plan;
  for (Shard& shard : result.shards) shard.rank = number[static_cast<size_t>(shard.rank)];
  sort_plan(result);
  return result;
}

/// Exchanges equal pieces of a table among their ranks, so that those of the same columns are on
/// ranks that follow each other.
Plan in_order_of_columns(Plan plan, const std::vector<TableConfig>& tables) {
  std::map<std::tuple<int, int64_t, int64_t>, std::vector<size_t>> equal;
  for (size_t i = 0; i < plan.shards.size(); ++i) {  // by rank
    const Shard& shard = plan.shards[i];
    if (shard.rows.size() == tables[static_cast<size_t>(shard.table)].rows) continue;
    equal[{shard.table, shard.rows.size(), shard.columns.size()}].push_back(i);
  }
  for (const auto& [shape, places] : equal) {
    std::vector<std::pair<Range, Range>> pieces;
    for (const size_t i : places) pieces.emplace_back(plan.shards[i].columns, plan.shards[i].rows);
    std::sort(pieces.begin(), pieces.end(), [](const auto& a, const auto& b) {
      return std::tuple(a.first.begin, a.second.begin) < std::tuple(b.first.begin, b.second.begin);
    });
    for (size_t i = 0; i < places.size(); ++i) {
      Shard& shard = plan.shards[places[i]];
      std::tie(shard.columns, shard.rows) = pieces[i];
    }
  }
  sort_plan(plan);
  return plan;
}

}  // namespace

void plan_nodes(const RunConfig& config, const CostModel& cost, int ranks_per_node, bool may_move,
                Plan& plan) {
  if (ranks_per_node < 2 || ranks_per_node >= plan.world) return;
  Plan best = plan;
  best.ranks_per_node = ranks_per_node;
  double spared = spared_bytes(config, best);
  const auto consider = [&](const Plan& other) {
    const double bytes = spared_bytes(config, other);
    if (bytes <= kWorthMoving * spared) return;
    best = other;
    spared = bytes;
  };
  if (may_move) {
    const std::vector<TableConfig>& tables = config.model.tables;
    const Plan ordered = in_order_of_columns(best, tables);
    for (const auto key : {&NodeGathering::by_shape, &NodeGathering::by_columns}) {
      const std::vector<int> order = NodeGathering(config, ordered, key).order(ranks_per_node);
      consider(in_order_of_columns(renumbered(ordered, order), tables));
    }
    consider(ordered);
  }
  if (spared_seconds(config, best, cost) > 0) plan = std::move(best);
}

}  // namespace dlrm
