#pragma once
#include <memory>

#include "comm/world/node_layout.h"
#include "mpi_c.h"

namespace dlrm::comm {

/// Returns the ranks of this machine that act as one node: all of them, or as many as
/// DLRM_RANKS_PER_NODE says. Throws usage_error if that is not a positive integer. Collective among
/// `machine`.
MPI_Comm split_into_nodes(MPI_Comm machine);

/// Collective among `world`. `node` are the ranks of this process's node.
std::shared_ptr<const NodeLayout> find_node_layout(MPI_Comm world, MPI_Comm node);

}  // namespace dlrm::comm
