#include "dlrm/plan/simulate.h"

#include "predict.h"
#include "step_graph.h"
#include "step_work.h"

namespace dlrm {

StepPrediction simulate_step(const RunConfig& given, const Plan& plan, const PlanOptions& options) {
  const RunConfig config = with_known_device(given, options);
  const MachineSpeed speed = machine_speed(config);
  const StepWork work = step_work(config, plan, options);
  StepPrediction prediction =
      predict_step(plan.world, speed, products_per_second(config, speed),
                   node_share(config, plan.world, options, speed),
                   [&](RankTasks& tasks) { return std::make_unique<StepGraph>(work, tasks); });
  prediction.local_bytes = work.exchanged().local_bytes;
  prediction.network_bytes = work.exchanged().network_bytes;
  return prediction;
}

}  // namespace dlrm
