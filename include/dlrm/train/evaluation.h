#pragma once
#include <optional>

#include "dlrm/data/batch_source.h"
#include "dlrm/metrics/metrics.h"
#include "dlrm/train/stop_signal.h"
#include "dlrm/train/trainer.h"

namespace dlrm {

/// Runs the model over every sample of `source` and measures it over all ranks. Nothing may be
/// routed before. Absent where some rank was asked to stop meanwhile. Collective.
std::optional<EvalResult> evaluate(Context& context, Trainer& trainer, const BatchSource& source,
                                   const DataConfig& data, int depth, const StopSignal& stop);

}  // namespace dlrm
