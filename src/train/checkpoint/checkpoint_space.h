#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dlrm/comm/communicator.h"
#include "dlrm/config/run_config.h"
#include "dlrm/core/log.h"
#include "dlrm/core/tensor_shard.h"
#include "dlrm/train/evaluation_steps.h"

namespace dlrm {

/// The bytes of all tensors of a checkpoint, whose pieces the ranks hold. Collective.
int64_t saved_bytes(Communicator& comm, const std::vector<TensorShard>& pieces);

/// By how many checkpoints a folder that has `existing` ones grows at most, in steps `step` to
/// `total`: to those that are kept, and the one that is being written.
int64_t added_checkpoints(const RunConfig& config, const EvaluationSteps& evaluations, int64_t step,
                          int64_t total, int64_t existing);

/// A warning if `free` bytes are too few for so many checkpoints of `bytes`, otherwise empty.
std::string space_warning(const CheckpointConfig& config, int64_t checkpoints, int64_t bytes,
                          int64_t free);

/// Logs this warning for the folder's disk. Collective.
void check_checkpoint_space(Communicator& comm, const Log& log, const RunConfig& config,
                            const EvaluationSteps& evaluations,
                            const std::vector<TensorShard>& pieces, int64_t step, int64_t total);

}  // namespace dlrm
