#include "node.h"

#include <algorithm>

#include <sched.h>

#include "control_group.h"
#include "mpi_comm.h"

namespace dlrm {
namespace {

cpu_set_t affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  return set;
}

double cpus_of(const cpu_set_t& set) {
  return std::min<double>(CPU_COUNT(&set), ControlGroup::cpus());
}

}  // namespace

Node find_node(MPI_Comm world, MPI_Comm beside) {
  Node node;
  int ranks = 1;
  MPI_Comm_size(world, &ranks);
  MPI_Comm_rank(beside, &node.rank);
  MPI_Comm_size(beside, &node.size);
  const cpu_set_t mine = affinity();
  cpu_set_t all;
  CPU_ZERO(&all);
  check_mpi(MPI_Allreduce(&mine, &all, sizeof mine, MPI_BYTE, MPI_BOR, beside), "MPI_Allreduce");
  node.cpus = cpus_of(all);
  node.whole = node.size == ranks;
  return node;
}

Node this_node() {
  Node node;
  node.cpus = cpus_of(affinity());
  return node;
}

}  // namespace dlrm
