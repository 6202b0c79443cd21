#pragma once
#include "dlrm/config/run_config.h"

#include "node.h"

namespace dlrm {

/// Replaces names of groups by expanded table names in `sharding.tables` and `memory.tables`. A
/// name that is neither is an error. `root` knows where keys were written.
void resolve_table_overrides(RunConfig& config, const Node& root);

/// Checks conditions among several keys.
void validate(const RunConfig& config, const Node& root);

}  // namespace dlrm
