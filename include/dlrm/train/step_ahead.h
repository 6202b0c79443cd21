#pragma once
#include <functional>

#include "dlrm/train/trainer.h"

namespace dlrm {

/// A loop's next batch; null where none is to be routed now. What it points to is read at once.
using NextBatch = std::function<const Batch*()>;

/// Step `step` of a loop that keeps `depth` batches routed beyond the one in work. On a device the
/// host routes while the device computes.
StepResult step_ahead(Trainer& trainer, int64_t step, bool stop_requested, int depth,
                      const NextBatch& next);
/// The same for Trainer::infer().
void infer_ahead(Trainer& trainer, int depth, const NextBatch& next,
                 std::vector<float>& probabilities, std::vector<float>& labels);

}  // namespace dlrm
