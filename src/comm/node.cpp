#include "node.h"

#include <algorithm>

#include "dlrm/core/cpus.h"

#include "control_group.h"
#include "mpi_comm.h"

namespace dlrm {
namespace {

double cpus_of(const CpuSet& set) { return std::min<double>(set.count(), ControlGroup::cpus()); }

}  // namespace

Node find_node(MPI_Comm world, MPI_Comm beside) {
  Node node;
  int ranks = 1;
  MPI_Comm_size(world, &ranks);
  MPI_Comm_rank(beside, &node.rank);
  MPI_Comm_size(beside, &node.size);
  const CpuSet mine = usable_cpu_set();
  CpuSet all;
  check_mpi(MPI_Allreduce(&mine, &all, sizeof mine, MPI_BYTE, MPI_BOR, beside), "MPI_Allreduce");
  node.cpus = cpus_of(all);
  node.whole = node.size == ranks;
  return node;
}

Node this_node() {
  Node node;
  node.cpus = cpus_of(usable_cpu_set());
  return node;
}

}  // namespace dlrm
