#pragma once
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/plan/plan.h"

namespace dlrm {

/// Row shards of one table and the same columns on different ranks of a node. The node adds their
/// partial vectors, in the order of the shards, before these leave it.
struct NodeSum {
  int table = 0;
  Range columns;
  std::vector<Shard> shards;  ///< at least two, by first row

  /// The columns of which the rank of shard `i` adds the vectors. May be empty.
  Range part(size_t i) const;
};

/// The node sums of a plan, by table, first column and node: none if it has no `ranks_per_node`.
/// Shards are left out if another shard of their rank has the same rows, or the same columns of the
/// table, and where the vectors that no longer leave the node are few.
std::vector<NodeSum> node_sums(const std::vector<TableConfig>& tables, RoutingMode mode,
                               const Plan& plan);

/// Whether a sum of so many shards is worth it, which return `vectors` vectors a sample.
bool node_sum_pays(const TableConfig& table, double vectors, double shards);

}  // namespace dlrm
