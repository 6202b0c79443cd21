#pragma once
#include <string>
#include <vector>

namespace dlrm::comm {

/// The facts that ranks exchange so that all of them choose the same kind of device communicator.
struct NcclCandidate {
  char obstacle[192] = "";   ///< why this rank cannot use NCCL
  char gpu[64] = "";         ///< unique among all nodes
  bool own_host_id = false;  ///< NCCL_HOSTID is set: NCCL treats ranks as on different machines
  int version = 0;           ///< of NCCL; 22809 is 2.28.9
};

/// Returns why these ranks cannot use NCCL, and names the rank; empty: they can.
std::string nccl_obstacle(const std::vector<NcclCandidate>& ranks);

/// "2.28.9"
std::string nccl_version_text(int version);

}  // namespace dlrm::comm
