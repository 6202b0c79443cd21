#pragma once
#include <string>
#include <vector>

namespace dlrm {

/// What ranks must know of one another to choose what moves their devices' memory alike.
struct Candidate {
  char obstacle[192] = "";   ///< why this rank cannot use NCCL
  char gpu[64] = "";         ///< names it among all machines
  bool own_host_id = false;  ///< NCCL_HOSTID tells NCCL to take ranks for different machines
  int version = 0;           ///< of NCCL; 22809 is 2.28.9
};

/// What keeps these ranks from NCCL, naming the rank; empty: nothing.
std::string obstacle_of(const std::vector<Candidate>& ranks);

/// "2.28.9"
std::string nccl_version_text(int version);

}  // namespace dlrm
