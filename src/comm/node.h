#pragma once
#include "mpi_c.h"

namespace dlrm {

/// The ranks on this machine and what they may use of it.
struct Node {
  int rank = 0;
  int size = 1;
  double cpus = 1;    ///< of all of them together, no more than a control group grants
  bool whole = true;  ///< all ranks of the world are here

  /// Whether ranks of `threads` threads each are more than that.
  bool crowded(int threads) const { return size * threads > cpus; }
};

/// Collective among `beside`, the ranks of `world` on this machine.
Node find_node(MPI_Comm world, MPI_Comm beside);
/// This process alone.
Node this_node();

}  // namespace dlrm
