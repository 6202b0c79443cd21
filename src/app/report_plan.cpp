#include "report_plan.h"

#include <cstdio>
#include <string>

#include <fmt/core.h>

#include "dlrm/plan/batch_size.h"
#include "dlrm/plan/machine.h"
#include "dlrm/plan/routed_plan.h"

namespace dlrm {

ReportedPlan report_plan(const RunConfig& config, int ranks, PlanOptions options) {
  if (!config.sharding.machine.empty()) {
    const MachineSpeed speed = read_machine(config.sharding.machine).speed;
    if (options.ranks_per_node == 0) options.ranks_per_node = speed.ranks_per_node;
    options.gpu = speed.gpu;
  }
  std::string said;
  const RunConfig sized = with_chosen_batch(config, ranks, options, 0, said);
  ReportedPlan reported{with_chosen_caches(sized, ranks, options), {}};
  const auto [plan, mode, why] = make_routed_plan(reported.config, ranks, options);
  reported.plan = plan;
  reported.config.routing.mode = mode;
  print_plan_report(stdout, reported.config, plan, options);
  fmt::print("{}{}{}", why, said, describe_choice(sized, reported.config));
  return reported;
}

}  // namespace dlrm
