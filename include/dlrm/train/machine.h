#pragma once
#include <cstdint>
#include <string>

#include "dlrm/comm/communicator.h"

namespace dlrm {

/// This rank's share of its machine. Collective.
struct MachineShare {
  /// Cores of this rank: those of its affinity, divided among the ranks that share it, and at most
  /// an equal part of cpu_quota().
  int cores = 1;
  int machine_cores = 1;  ///< of all of the machine's CPUs that are online, at most cpu_quota()
  int ranks_here = 1;     ///< ranks on this machine
  int rank_here = 0;      ///< this rank's number among them
  double memory_bytes =
      0;  ///< an equal part of the machine's available memory, within the cgroup's limit
};
/// `root`: where /proc and /sys are.
MachineShare machine_share(Communicator& comm, const std::string& root = "");

/// The number of ranks that pass the same `name`, including this one. Collective.
int ranks_that_name(Communicator& comm, const std::string& name);

/// Threads for a rank: `configured` if not 0, otherwise OMP_NUM_THREADS if set, otherwise the
/// rank's cores.
int threads_for(int configured, const MachineShare& share);

}  // namespace dlrm
