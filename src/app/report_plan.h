#pragma once
#include "dlrm/config/run_config.h"
#include "dlrm/plan/plan.h"

namespace dlrm {

/// A plan, and the config of a run that would use it: with the chosen caches and routing mode.
struct ReportedPlan {
  RunConfig config;
  Plan plan;
};

/// Plans a run of `ranks` ranks, and prints the plan with what was chosen for it. If the config
/// names a machine file, that says whether ranks have GPUs, and how many ranks are on a node if
/// `options` does not.
ReportedPlan report_plan(const RunConfig& config, int ranks, PlanOptions options);

}  // namespace dlrm
