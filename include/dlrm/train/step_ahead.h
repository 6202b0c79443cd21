#pragma once
#include <functional>

#include "dlrm/train/trainer.h"

namespace dlrm {

/// Returns the next batch of a loop, or null if no batch may be routed now. The batch must stay
/// valid until the next call.
using NextBatch = std::function<const Batch*()>;

/// Step `step` of a loop that keeps `depth` batches routed ahead. If the device runs
/// asynchronously, the host routes while the device computes.
StepResult step_ahead(Trainer& trainer, int64_t step, bool stop_requested, int depth,
                      const NextBatch& next);
/// The same for Trainer::infer().
void infer_ahead(Trainer& trainer, int depth, const NextBatch& next,
                 std::vector<float>& probabilities, TargetList& targets);

}  // namespace dlrm
