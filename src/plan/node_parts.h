#pragma once
#include <vector>

#include "cost.h"
#include "shards.h"

namespace dlrm {

/// Cuts shards whose rank is a node into parts on the ranks of this node. `cost` is that of nodes
/// of `ranks_per_node` ranks. The parts of a shard are on different ranks, the lightest ones if
/// they are fewer.
std::vector<Shard> parts_in_nodes(const RunConfig& config, const CostModel& cost,
                                  int ranks_per_node, const std::vector<Shard>& shards);

}  // namespace dlrm
