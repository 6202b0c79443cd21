#pragma once
#include <cstdint>
#include <string>

#include "dlrm/comm/communicator.h"

namespace dlrm {

/// This rank's share of its machine. Collective.
struct MachineShare {
  int cpus = 1;  ///< CPUs for this rank alone: its affinity, split among the ranks that share it
  int machine_cpus = 1;  ///< CPUs of the machine that are online
  int ranks_here = 1;    ///< ranks on this machine
  int rank_here = 0;     ///< this rank's number among them
  double memory_bytes =
      0;  ///< of the machine's available memory (cgroup limit respected), an equal part
};
MachineShare machine_share(Communicator& comm);

/// How many ranks name the same as this one, itself included. Collective.
int ranks_that_name(Communicator& comm, const std::string& name);

/// Threads for a rank: `configured` if not 0, else OMP_NUM_THREADS if set, else the rank's CPUs.
int threads_for(int configured, const MachineShare& share);

}  // namespace dlrm
