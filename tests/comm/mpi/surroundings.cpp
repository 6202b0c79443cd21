#include "surroundings.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/resource.h>

#include "comm/calls/progress_engine.h"
#include "comm/mpi/mpi_c.h"
#include "comm/mpi/mpi_nodes.h"
#include "comm/world/local_ranks.h"

namespace dlrm::test {
namespace {

constexpr const char* kRanksPerNode = "DLRM_RANKS_PER_NODE";

/// The environment names the number of ranks of a node. Only a positive int is one.
void check_nodes_of_the_environment(const Communicator& comm) {
  const char* set = std::getenv(kRanksPerNode);
  const std::string before = set ? set : "";
  const int most = comm.size();
  for (const auto& [text, per_node] :
       {std::pair<std::string, int>{"", most}, {"1", 1}, {"2", 2}, {"1000", most}}) {
    ::setenv(kRanksPerNode, text.c_str(), 1);
    MPI_Comm node = comm::split_into_nodes(MPI_COMM_WORLD);
    int place = 0, size = 0;
    MPI_Comm_rank(node, &place);
    MPI_Comm_size(node, &size);
    MPI_Comm_free(&node);
    const int first = comm.rank() / per_node * per_node;
    if (place != comm.rank() - first || size != std::min(per_node, most - first)) {
      throw run_error("{} is '{}': rank {} has place {} of {}", kRanksPerNode, text, comm.rank(),
                      place, size);
    }
  }
  for (const char* text : {"two", "0", "-1", "2x", " 2", "2.5", "4294967298"}) {
    ::setenv(kRanksPerNode, text, 1);
    std::string error;
    try {
      comm::split_into_nodes(MPI_COMM_WORLD);
    } catch (const Error& thrown) {
      error = thrown.code() == ExitCode::kUsage ? thrown.what() : "another code";
    }
    if (error !=
        fmt::format("{} is '{}': it must be a positive number of ranks", kRanksPerNode, text)) {
      throw run_error("{} is '{}': {}", kRanksPerNode, text, error);
    }
  }
  set ? ::setenv(kRanksPerNode, before.c_str(), 1) : ::unsetenv(kRanksPerNode);
}

/// The largest number of ranks of one node.
int64_t largest_node(const Communicator& comm) {
  const std::vector<int> nodes = comm.nodes();
  int64_t largest = 0;
  for (const int node : nodes) {
    largest = std::max<int64_t>(largest, std::count(nodes.begin(), nodes.end(), node));
  }
  return largest;
}

void check_transport(Communicator& comm) {
  const char* shared = std::getenv("DLRM_SHARED_MEMORY");
  const std::vector<int> nodes = comm.nodes();
  const auto own = std::count(nodes.begin(), nodes.end(), nodes[static_cast<size_t>(comm.rank())]);
  std::string expected = "mpi, shared memory within a machine";
  if (own == comm.size()) expected = "shared memory";
  if (own == 1 || (shared && std::string_view(shared) == "off")) expected = "mpi";
  const std::unique_ptr<Communicator> other = comm.duplicate();
  for (const Communicator* each : {&comm, other.get()}) {
    if (each->describe() != expected || each->nodes() != nodes) {
      throw run_error("rank {}: '{}', not '{}'", comm.rank(), each->describe(), expected);
    }
    if (largest_node(comm) > 1 && expected != "mpi" && each->shared_memory_peak() == 0) {
      throw run_error("rank {} has no shared memory", comm.rank());
    }
  }
}

/// How often this thread sleeps in 100 pauses after `polls` polls without success.
int64_t sleeps(const Communicator& comm, int64_t polls) {
  rusage before{}, after{};
  getrusage(RUSAGE_THREAD, &before);
  for (int i = 0; i < 100; ++i) comm.engine()->back_off(polls);
  getrusage(RUSAGE_THREAD, &after);
  return after.ru_nvcsw - before.ru_nvcsw;
}

/// Ranks that have CPUs of their own wait for longer before they sleep, and among nodes they never
/// sleep. The policy is that of the last number of threads.
void check_waits(World& world) {
  Communicator& comm = world.comm();
  const std::vector<int> of_one_node(static_cast<size_t>(comm.size()), 0);
  const auto found = comm::find_local_ranks(
      MPI_COMM_WORLD, comm::NodeLayout(View<const int>(of_one_node), comm.rank()));
  std::vector<int> of_two_nodes = of_one_node;
  of_two_nodes.back() = 1;
  const comm::NodeLayout two(View<const int>(of_two_nodes), comm.rank());
  if (comm::find_local_ranks(MPI_COMM_WORLD, two).all_ranks) {
    throw run_error("all ranks are on one of two nodes");
  }
  const bool one_node = comm.nodes().back() == 0;
  for (const int threads : {1000000, 1, 1000000, 1}) {
    world.use_threads(threads);
    const bool yields = found.size * static_cast<double>(threads) > found.cpus;
    if ((sleeps(comm, 3000) >= 50) != yields ||
        (sleeps(comm, 30000) >= 50) != (yields || one_node)) {
      throw run_error("rank {} waits in another way with {} threads", comm.rank(), threads);
    }
  }
}

}  // namespace

void check_surroundings(World& world) {
  check_nodes_of_the_environment(world.comm());
  check_transport(world.comm());
  check_waits(world);
}

}  // namespace dlrm::test
