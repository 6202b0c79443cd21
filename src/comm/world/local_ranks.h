#pragma once
#include "comm/mpi/mpi_c.h"
#include "node_layout.h"

namespace dlrm::comm {

/// The ranks on this machine and the CPUs that they may use.
struct LocalRanks {
  int rank = 0;  ///< of this process among them
  int size = 1;
  double cpus = 1;        ///< of all of them together, limited by the control group
  bool all_ranks = true;  ///< all ranks of the world are on one node

  /// True if ranks of `threads` threads each have more threads than CPUs.
  bool oversubscribed(int threads) const { return size * threads > cpus; }
};

/// Collective among `machine`, the ranks on this machine.
LocalRanks find_local_ranks(MPI_Comm machine, const NodeLayout& nodes);
/// For a process without MPI.
LocalRanks single_process();

}  // namespace dlrm::comm
