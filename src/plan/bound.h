#pragma once
#include "dlrm/config/run_config.h"
#include "dlrm/plan/plan.h"

#include "cost.h"

namespace dlrm {

/// The least seconds such that tables can be divided into parts of no more, and all parts together
/// cost no more per rank. No plan whose tables are whole, copied or cut into grids of equal parts
/// has a heaviest rank that costs less.
double least_heaviest(const RunConfig& config, const CostModel& cost);

/// Seconds of the rank of `plan` that costs most, with the node sums of the plan.
double heaviest_rank(const RunConfig& config, const Plan& plan, const CostModel& cost);

/// Bytes that any plan needs.
struct LeastMemory {
  double common = 0;  ///< on every rank
  double tables = 0;  ///< on all ranks together: rows and state without padding, messages, ids
};
/// Cached tables are left out, since they may take less memory than their rows.
LeastMemory least_memory(const RunConfig& config, int world);

/// The heaviest rank by cost, over the least of any plan, and the fullest by memory, over the mean
/// of what any plan needs. Caches are left out of the latter.
struct PlanRatios {
  double cost = 1;
  double memory = 1;
};
PlanRatios plan_ratios(const RunConfig& config, const Plan& plan, const PlanOptions& options);

}  // namespace dlrm
