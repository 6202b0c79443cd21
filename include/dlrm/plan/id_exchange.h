#pragma once
#include <vector>

#include "dlrm/plan/plan.h"

namespace dlrm {

/// True if GPUs that NCCL connects exchange the ids of this plan themselves: with *fixed* routing,
/// unless the hosts need the ids. They do if ids have weights, if rows are cached, or if a table is
/// cut by rows and by columns and its updates need the norms of whole rows. False if one rank has
/// all rows uncut.
bool devices_exchange_ids(const std::vector<TableConfig>& tables, RoutingMode mode,
                          const OptimizerConfig& optimizer, const Plan& plan);
/// False on CPUs, and if vectors pass through the host: then devices exchange the ids of no plan.
bool devices_may_exchange_ids(const RunConfig& config, int world);
/// devices_exchange_ids() for a run of this config.
bool devices_exchange_ids(const RunConfig& config, const Plan& plan);

/// Ids of a sample that hosts route: those of data-parallel tables, if devices exchange the others.
double ids_of_hosts(const RunConfig& config, const Plan& plan);

}  // namespace dlrm
