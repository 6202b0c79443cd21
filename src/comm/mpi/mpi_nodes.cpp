#include "mpi_nodes.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <vector>

#include "dlrm/core/error.h"

#include "mpi_comm.h"

namespace dlrm::comm {
namespace {

constexpr const char* kRanksPerNode = "DLRM_RANKS_PER_NODE";

/// 0: not set.
int ranks_per_node() {
  const char* text = std::getenv(kRanksPerNode);
  if (!text || *text == 0) return 0;
  int value = 0;
  const char* const end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  if (error == std::errc() && rest == end && value > 0) return value;
  throw usage_error("{} is '{}': it must be a positive number of ranks", kRanksPerNode, text);
}

}  // namespace

MPI_Comm split_into_nodes(MPI_Comm machine) {
  int place = 0;
  check_mpi(MPI_Comm_rank(machine, &place), "MPI_Comm_rank");
  const int wanted = ranks_per_node();
  const int node = wanted > 0 ? place / wanted : 0;
  MPI_Comm ranks = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(machine, node, place, &ranks), "MPI_Comm_split");
  return ranks;
}

std::shared_ptr<const NodeLayout> find_node_layout(MPI_Comm world, MPI_Comm node) {
  int rank = 0, size = 1, lowest = 0;
  check_mpi(MPI_Comm_rank(world, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(world, &size), "MPI_Comm_size");
  check_mpi(MPI_Allreduce(&rank, &lowest, 1, MPI_INT, MPI_MIN, node), "MPI_Allreduce");
  std::vector<int> lowest_of(static_cast<size_t>(size));
  check_mpi(MPI_Allgather(&lowest, 1, MPI_INT, lowest_of.data(), 1, MPI_INT, world),
            "MPI_Allgather");
  return std::make_shared<const NodeLayout>(View<const int>(lowest_of.data(), lowest_of.size()),
                                            rank);
}

}  // namespace dlrm::comm
