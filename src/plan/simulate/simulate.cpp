#include "dlrm/plan/simulate.h"

#include "predict.h"
#include "step_graph.h"
#include "step_work.h"

namespace dlrm {

StepPrediction simulate_step(const RunConfig& given, const Plan& plan, const PlanOptions& options) {
  const RunConfig config = with_known_device(given, options);
  const MachineSpeed speed = machine_speed(config);
  const StepWork work = step_work(config, plan, options);
  return predict_step(plan.world, speed, products_per_second(config, speed),
                      [&](RankTasks& tasks) { return std::make_unique<StepGraph>(work, tasks); });
}

}  // namespace dlrm
