#pragma once
#include "dlrm/config/run_config.h"
#include "dlrm/plan/plan.h"

namespace dlrm {

/// A plan, and the config of a run that would use it: with the chosen caches and routing mode.
struct ReportedPlan {
  RunConfig config;
  Plan plan;
};

/// Plans a run of `ranks` ranks, and prints the plan with what was chosen for it. What a machine
/// file of the config says of ranks' nodes and devices stands in place of what `options` leave
/// open.
ReportedPlan report_plan(const RunConfig& config, int ranks, PlanOptions options);

}  // namespace dlrm
