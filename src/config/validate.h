#pragma once
#include "dlrm/config/run_config.h"

#include "node.h"

namespace dlrm {

/// Puts expanded table names in the place of groups in `sharding.tables` and `memory.tables`; a
/// name of neither is an error. `root` tells where things were written.
void resolve_table_overrides(RunConfig& config, const Node& root);

/// Checks what no key can know alone.
void validate(const RunConfig& config, const Node& root);

}  // namespace dlrm
