#pragma once
#include <functional>
#include <vector>

#include "dlrm/plan/simulate.h"

#include "rank_tasks.h"

namespace dlrm {

/// Adds the tasks of the next step. The last task of a rank's step is on its main lane.
using AddStep = std::function<void()>;

/// Runs a few steps of `work` on `machine` and reports the last one. Then it runs them
/// again without exchanges. `ranks` are the numbers of the ranks that are simulated: ranks that do
/// the same work on resources of their own are simulated once.
StepPrediction predict_step(const SimulatedMachine& machine, const StepWork& work,
                            const std::vector<int>& ranks,
                            const std::function<AddStep(RankTasks& tasks)>& make_steps);

}  // namespace dlrm
