#include "local_ranks.h"

#include <algorithm>

#include "dlrm/core/cpus.h"

#include "comm/mpi/mpi_comm.h"
#include "control_group.h"

namespace dlrm::comm {
namespace {

double cpus_of(const CpuSet& set) { return std::min<double>(set.count(), ControlGroup::cpus()); }

}  // namespace

LocalRanks find_local_ranks(MPI_Comm machine, const NodeLayout& nodes) {
  LocalRanks ranks;
  check_mpi(MPI_Comm_rank(machine, &ranks.rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(machine, &ranks.size), "MPI_Comm_size");
  const CpuSet mine = usable_cpu_set();
  CpuSet all;
  check_mpi(MPI_Allreduce(&mine, &all, sizeof mine, MPI_BYTE, MPI_BOR, machine), "MPI_Allreduce");
  ranks.cpus = cpus_of(all);
  ranks.all_ranks = nodes.nodes() == 1;
  return ranks;
}

LocalRanks single_process() {
  LocalRanks ranks;
  ranks.cpus = cpus_of(usable_cpu_set());
  return ranks;
}

}  // namespace dlrm::comm
