#include "local_ranks.h"

#include <algorithm>

#include <sched.h>

#include "control_group.h"
#include "mpi/mpi_comm.h"

namespace dlrm::comm {
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

LocalRanks find_local_ranks(MPI_Comm world, MPI_Comm local) {
  LocalRanks ranks;
  int world_size = 1;
  MPI_Comm_size(world, &world_size);
  MPI_Comm_rank(local, &ranks.rank);
  MPI_Comm_size(local, &ranks.size);
  const cpu_set_t mine = affinity();
  cpu_set_t all;
  CPU_ZERO(&all);
  check_mpi(MPI_Allreduce(&mine, &all, sizeof mine, MPI_BYTE, MPI_BOR, local), "MPI_Allreduce");
  ranks.cpus = cpus_of(all);
  ranks.all_ranks = ranks.size == world_size;
  return ranks;
}

LocalRanks single_process() {
  LocalRanks ranks;
  ranks.cpus = cpus_of(affinity());
  return ranks;
}

}  // namespace dlrm::comm
