#pragma once
#include "dlrm/config/run_config.h"

#include "node.h"

namespace dlrm {

/// Replaces group names by expanded table names in `sharding.tables` and `memory.tables`. Throws
/// for a name that is neither a group nor a table. `root` knows where keys were written.
void resolve_table_overrides(RunConfig& config, const Node& root);

/// Checks conditions that involve several keys.
void validate(const RunConfig& config, const Node& root);

/// Checks that keys which compare evaluations have data to evaluate on. The config that a run saved
/// need not meet this, so that its weights can be used.
void check_evaluations(const RunConfig& config, const Node& root);

}  // namespace dlrm
