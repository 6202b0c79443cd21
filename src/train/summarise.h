#pragma once
#include "training_run.h"

namespace dlrm {

/// The figures of a run for summary.json. Of this rank, except the counts that `progress` holds of
/// all ranks. `config` tells the device.
RunSummary summarise(Context& context, const RunConfig& config, const Plan& plan,
                     const RunProgress& progress, const EvaluationHistory& evaluations,
                     const TrainingRun& run);

}  // namespace dlrm
