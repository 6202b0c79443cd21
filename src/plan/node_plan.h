#pragma once
#include <vector>

#include "dlrm/plan/node_sums.h"

#include "cost.h"

namespace dlrm {

/// What each rank sends to other ranks of its node for node sums, by rank, in bytes of a step.
struct NodeSumBytes {
  std::vector<double> partial;  ///< forward: the columns that other ranks sum
  std::vector<double> summed;   ///< backward: the columns that it sums, to the other shards' ranks
};
NodeSumBytes node_sum_bytes(const RunConfig& config, const Plan& plan);

/// Whether a sum of so many shards is worth it, which return `vectors` vectors a sample.
bool node_sum_pays(const TableConfig& table, double vectors, double shards);

/// Gives ranks other numbers, so that shards whose partial vectors can be summed lie within nodes
/// of `ranks_per_node` ranks, and sets Plan::ranks_per_node if such sums make the exchange cheaper.
/// Otherwise leaves the plan as it is. If not `may_move`, ranks keep their numbers.
void plan_nodes(const RunConfig& config, const CostModel& cost, int ranks_per_node, bool may_move,
                Plan& plan);

}  // namespace dlrm
