#pragma once
#include <vector>

#include "dlrm/comm/communicator.h"

#include "owned_shards.h"
#include "replicas.h"

namespace dlrm {

/// The weights and optimizer state of all rows on this rank. One rank saves each cell: the owner of
/// the first column saves the state of a whole row, and rank i mod world saves replica i. Every
/// rank loads all of its arrays.
std::vector<ShardArray> checkpoint_arrays(const EmbeddingOptions& options, const Communicator& comm,
                                          const std::vector<OwnedShard>& shards,
                                          const std::vector<Replica>& replicated);

}  // namespace dlrm
