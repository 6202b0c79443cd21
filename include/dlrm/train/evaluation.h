#pragma once
#include <optional>

#include "dlrm/data/batch_source.h"
#include "dlrm/metrics/metrics.h"
#include "dlrm/train/stop_signal.h"
#include "dlrm/train/trainer.h"

namespace dlrm {

/// Runs the model on every sample of `source` and computes metrics over all ranks. The trainer must
/// have no routed batches. Returns no value if a rank was requested to stop. Collective.
std::optional<EvalResult> evaluate(Context& context, Trainer& trainer, const BatchSource& source,
                                   const DataConfig& data, int depth, const StopSignal& stop);

}  // namespace dlrm
