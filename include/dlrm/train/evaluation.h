#pragma once
#include <cstdint>
#include <functional>
#include <optional>

#include "dlrm/data/batch_source.h"
#include "dlrm/metrics/metrics.h"
#include "dlrm/train/evaluation_slices.h"
#include "dlrm/train/sample_ids.h"
#include "dlrm/train/stop_signal.h"
#include "dlrm/train/task_metrics.h"
#include "dlrm/train/trainer.h"

namespace dlrm {

/// Takes the global number of samples of an evaluated batch, and the probabilities and labels of
/// this rank's part of it, [labels, b]. It may make collective calls.
using TakePredictions =
    std::function<void(int64_t size, View<const float> probabilities, View<const float> labels)>;

/// Told how many batches, and samples of all ranks, an evaluation has done.
using EvaluationProgress = std::function<void(int64_t batches, int64_t samples)>;

/// What an evaluation does besides. Pointers and functions may be null.
struct EvaluationExtras {
  TakePredictions take;                ///< gets each batch, in the order of the source
  EvaluationSlices* slices = nullptr;  ///< gets all samples
  SampleIds* groups = nullptr;         ///< gets all samples, for EvalResult::gauc
  EvaluationProgress progress = {};    ///< called before the first batch and after each
};

/// Runs the model on every sample of `source` and computes metrics over all ranks. The trainer must
/// have no routed batches. Returns no value if a rank was requested to stop. Collective.
std::optional<EvalResult> evaluate(Context& context, Trainer& trainer, const BatchSource& source,
                                   const RunConfig& config, const StopSignal& stop,
                                   const EvaluationExtras& extras = {});

}  // namespace dlrm
