#pragma once
#include "dlrm/config/run_config.h"

namespace dlrm {

/// What a build can do.
struct Capabilities {
  bool cuda = false;
};

/// Throws a usage_error (exit 2) for what a config may say and this build cannot do: cached tables,
/// device cuda without CUDA, comm nccl and staged where no GPU can be. Planning needs no such
/// check; training does.
void check_buildable(const RunConfig& config, const Capabilities& build);

/// Throws a usage_error where `comm` can move nothing but a GPU's memory: the run is on a CPU.
void check_host_comm(CommKind comm);

}  // namespace dlrm
