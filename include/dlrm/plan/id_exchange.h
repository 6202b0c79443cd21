#pragma once
#include <vector>

#include "dlrm/plan/plan.h"

namespace dlrm {

/// True if GPUs that NCCL connects exchange the ids of this plan themselves: with *fixed* routing,
/// unless the hosts need the ids. They do if rows are cached, or if a table is cut by rows and by
/// columns and has a row-wise optimizer. False if one rank has all rows uncut.
bool devices_exchange_ids(const std::vector<TableConfig>& tables, RoutingMode mode,
                          OptimizerRule rule, const Plan& plan);
/// The same for a run of this config. False on CPUs, and if vectors pass through the host.
bool devices_exchange_ids(const RunConfig& config, const Plan& plan);

/// The mode of a run of this plan: `config.routing.mode`. If that is auto, *fixed* where devices
/// exchange the ids, row shards return at most 1/16 more vectors than with *exact*, and memory
/// suffices, if all ranks are on a node, or the ids that a rank receives are at most as many bytes
/// as the vectors of its samples in fp32. Otherwise *exact*.
RoutingMode chosen_routing(const RunConfig& config, const Plan& plan, const PlanOptions& options);

/// Bytes of a rank's block of ids for `samples` samples, if devices_exchange_ids(). Bags have the
/// config's hotness.
int64_t id_block_bytes(const std::vector<TableConfig>& tables, const Plan& plan, int64_t samples);
/// Bytes of the sizes that a rank tells each other rank before.
int64_t id_block_size_bytes(const std::vector<TableConfig>& tables, const Plan& plan);

}  // namespace dlrm
