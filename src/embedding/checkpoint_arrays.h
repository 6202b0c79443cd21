#pragma once
#include <vector>

#include "dlrm/comm/communicator.h"

#include "owned_shards.h"
#include "replicated.h"

namespace dlrm {

/// Weights and optimizer state of everything that lies on this rank. Each cell is saved by one rank
/// alone: a row's single state number by the owner of its first column, data-parallel table i (of
/// those) by rank i mod world. Every rank loads all it holds.
std::vector<ShardArray> checkpoint_arrays(const EmbeddingOptions& options, const Communicator& comm,
                                          const std::vector<OwnedShard>& shards,
                                          const std::vector<ReplicatedTable>& replicated);

}  // namespace dlrm
