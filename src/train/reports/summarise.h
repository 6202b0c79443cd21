#pragma once
#include "train/run/training_run.h"

namespace dlrm {

/// The most of any rank for each name that a rank has. Collective.
std::map<std::string, double> most_of_ranks(Communicator& comm,
                                            const std::map<std::string, double>& own);

/// Sums over all ranks. Collective.
void add_up(Communicator& comm, CacheCounters& cache);

/// The figures of a run for summary.json. Of this rank, except the longest stages and the counts
/// that `progress` holds of all ranks. `config` tells the device. Collective.
RunSummary summarise(Context& context, const RunConfig& config, const Plan& plan,
                     const RunProgress& progress, const EvaluationHistory& evaluations,
                     const TrainingRun& run);

}  // namespace dlrm
