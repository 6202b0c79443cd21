#pragma once
#include "dlrm/config/run_config.h"

namespace dlrm {

/// Throws a usage_error (exit 2) for what a config may say and this build cannot do yet:
/// activations other than relu, tables stored as bf16, cached tables, nccl and staged
/// communication, CUDA. Planning needs no such check; training does.
void check_buildable(const RunConfig& config);

}  // namespace dlrm
