#include "dlrm/comm/device_comm.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "nccl_comm.h"
#include "staged_comm.h"

namespace dlrm {
namespace {

/// What the ranks must know of one another to choose alike.
struct Candidate {
  char obstacle[192] = "";  ///< why this rank cannot use NCCL
  char gpu[64] = "";
  bool own_host_id = false;  ///< NCCL_HOSTID tells NCCL to take ranks for different machines
};

Candidate candidate_of(Device& device) {
  Candidate mine;
  std::snprintf(mine.obstacle, sizeof mine.obstacle, "%s", why_no_nccl(device).c_str());
  if (mine.obstacle[0] == '\0') {
    std::snprintf(mine.gpu, sizeof mine.gpu, "%s", gpu_identity(device).c_str());
  }
  mine.own_host_id = std::getenv("NCCL_HOSTID") != nullptr;
  return mine;
}

/// What keeps these ranks from NCCL; empty: nothing.
std::string obstacle_of(const std::vector<Candidate>& ranks) {
  for (size_t q = 0; q < ranks.size(); ++q) {
    if (ranks[q].obstacle[0]) return fmt::format("rank {}: {}", q, ranks[q].obstacle);
  }
  for (size_t q = 0; q < ranks.size(); ++q) {
    for (size_t r = 0; r < q; ++r) {
      const bool same = std::string(ranks[q].gpu) == ranks[r].gpu;
      if (same && !(ranks[q].own_host_id && ranks[r].own_host_id)) {
        return fmt::format("ranks {} and {} share GPU {}", r, q, ranks[q].gpu);
      }
    }
  }
  return "";
}

}  // namespace

std::unique_ptr<Communicator> make_device_comm(Communicator& host, Device& device,
                                               const DeviceCommOptions& options) {
  const bool nothing_to_send = host.size() == 1 && options.kind == DeviceCommKind::kAuto;
  if (nothing_to_send || options.kind == DeviceCommKind::kStaged) {
    return make_staged_comm(host, device);
  }
  const std::string obstacle = obstacle_of(host.allgather(candidate_of(device)));
  if (obstacle.empty()) return make_nccl_comm(host, device, options);
  if (options.kind == DeviceCommKind::kAuto) return make_staged_comm(host, device);
  throw usage_error("comm nccl: {}; use comm: staged, or auto", obstacle);
}

}  // namespace dlrm
