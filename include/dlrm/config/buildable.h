#pragma once
#include "dlrm/config/run_config.h"

namespace dlrm {

/// Throws a usage_error (exit 2) for what a config may say and this build cannot do yet:
/// activations other than relu, tables stored as bf16, cached tables. Planning needs no such check;
/// training does. What a device asks for is checked where it is made.
void check_buildable(const RunConfig& config);

}  // namespace dlrm
