#include "dlrm/config/buildable.h"

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

void check_device(const RunConfig& config, const Capabilities& build) {
  if (config.device == DeviceKind::kCuda && !build.cuda) {
    throw usage_error(
        "device cuda: this build has no CUDA; `launch/build.sh cuda` makes one that has");
  }
  if (!build.cuda || config.device == DeviceKind::kCpu) check_host_comm(config.comm);
}

}  // namespace

void check_host_comm(CommKind comm) {
  if (comm != CommKind::kNccl && comm != CommKind::kStaged) return;
  throw usage_error("comm: {}: moves a GPU's memory, and this run is on a CPU; use auto or mpi",
                    comm == CommKind::kNccl ? "nccl" : "staged");
}

void check_buildable(const RunConfig& config, const Capabilities& build) {
  check_device(config, build);
  const CachedConfig& cached = config.memory.cached;
  if (config.caches_tables() && !cached.middle.empty() && cached.backing != "ssd") {
    throw usage_error("memory.cached.middle: needs memory.cached.backing: ssd; leave it empty");
  }
}

}  // namespace dlrm
