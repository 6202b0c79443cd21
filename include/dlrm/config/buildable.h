#pragma once
#include "dlrm/config/run_config.h"

namespace dlrm {

/// The capabilities of a build.
struct Capabilities {
  bool cuda = false;
};

/// Throws a usage_error (exit 2) if the config asks for something that this build cannot do: device
/// cuda without CUDA, comm nccl or staged without a GPU, or a middle tier over another tier than an
/// SSD. Training needs this check, planning does not.
void check_buildable(const RunConfig& config, const Capabilities& build);

/// For a run on a CPU: throws a usage_error if `comm` serves only GPU memory.
void check_host_comm(CommKind comm);

}  // namespace dlrm
