#include "dlrm/comm/device_comm.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "dlrm/core/log.h"

#include "device_choice.h"
#include "nccl_comm.h"
#include "staged_comm.h"

namespace dlrm {
namespace {

using comm::NcclCandidate;

NcclCandidate candidate_of(Device& device) {
  NcclCandidate mine;
  std::snprintf(mine.obstacle, sizeof mine.obstacle, "%s", comm::why_no_nccl(device).c_str());
  if (mine.obstacle[0] == '\0') {
    std::snprintf(mine.gpu, sizeof mine.gpu, "%s", gpu_identity(device).c_str());
    mine.version = comm::nccl_version();
  }
  mine.own_host_id = std::getenv("NCCL_HOSTID") != nullptr;
  return mine;
}

}  // namespace

std::unique_ptr<Communicator> make_device_comm(Communicator& host, Device& device,
                                               const DeviceCommOptions& options) {
  const bool nothing_to_send = host.size() == 1 && options.kind == DeviceCommKind::kAuto;
  if (nothing_to_send || options.kind == DeviceCommKind::kStaged) {
    return comm::make_staged_comm(host, device);
  }
  const std::string obstacle = comm::nccl_obstacle(host.allgather(candidate_of(device)));
  if (obstacle.empty()) return comm::make_nccl_comm(host, device);
  if (options.kind == DeviceCommKind::kNccl) {
    throw usage_error("comm nccl: {}; use comm: staged, or auto", obstacle);
  }
  if (host.rank() == 0) {
    Log().warn("GPUs exchange through the host (comm: staged), which is slow: {}", obstacle);
  }
  return comm::make_staged_comm(host, device);
}

}  // namespace dlrm
