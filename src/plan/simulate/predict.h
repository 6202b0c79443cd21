#pragma once
#include <functional>
#include <vector>

#include "dlrm/plan/machine.h"
#include "dlrm/plan/simulate.h"

#include "rank_tasks.h"

namespace dlrm {

/// Adds the tasks of the next step. The last task of a rank's step is on its main lane.
using AddStep = std::function<void()>;

/// Runs a few steps of `work` on the config's machine and reports the last one. Then it runs them
/// again without exchanges. `ranks` are the numbers of the ranks that are simulated: ranks that do
/// the same work on resources of their own are simulated once.
StepPrediction predict_step(const RunConfig& config, int world, const PlanOptions& options,
                            const StepWork& work, const std::vector<int>& ranks,
                            const std::function<AddStep(RankTasks& tasks)>& make_steps);

/// A machine whose exchanges take no time. Ranks still wait for each other.
MachineSpeed without_exchanges(MachineSpeed speed);

/// The machine's FLOP/s in the run's precision. A usage_error if its file does not say.
double products_per_second(const RunConfig& config, const MachineSpeed& speed);

/// Of the machine file that the config names. A usage_error if there is none.
MachineSpeed machine_speed(const RunConfig& config);

}  // namespace dlrm
