#pragma once
#include <vector>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/tensor_shard.h"

#include "embedding/update/replicas.h"
#include "owned_shards.h"

namespace dlrm {

/// The weights and optimizer state of all rows on this rank. One rank saves each cell: the owner of
/// the first column saves the state of a whole row, and rank i mod world saves replica i. Every
/// rank loads all of its parts.
std::vector<TensorShard> tensor_shards_of(const EmbeddingOptions& options, const Communicator& comm,
                                          const std::vector<OwnedShard>& owned,
                                          const std::vector<Replica>& replicas);

}  // namespace dlrm
