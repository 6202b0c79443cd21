// MPI belongs to this program: worlds of some of its ranks come and go, and MPI goes on after them.
#include <cstdio>
#include <exception>
#include <memory>

#include "dlrm/comm/world.h"

#include "../suite.h"
#include "comm/mpi/mpi_c.h"

namespace dlrm {
namespace {

constexpr double kTimeout = 60;

void expect(bool holds, const char* what) {
  if (!holds) throw run_error("{}", what);
}

/// A world of the ranks of `group`, in the order of `key`.
void check_world_of(int group, int key) {
  MPI_Comm ranks = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, group, key, &ranks);
  int rank = 0, size = 0;
  MPI_Comm_rank(ranks, &rank);
  MPI_Comm_size(ranks, &size);
  World world(RunningMpi{MPI_Comm_c2f(ranks)}, kTimeout);
  MPI_Comm_free(&ranks);  // the world has a copy
  expect(world.rank() == rank && world.size() == size, "rank or size differ from MPI's");
  Trace trace;
  world.start_watchdog(kTimeout, trace);
  test::check_everything(world.comm());
  world.finish();
}

/// A communicator may outlive its world and MPI.
std::unique_ptr<Communicator> duplicate_of_a_world() {
  World world(RunningMpi{MPI_Comm_c2f(MPI_COMM_WORLD)}, kTimeout);
  std::unique_ptr<Communicator> made = world.comm().duplicate();
  made->barrier();
  world.finish();
  return made;
}

void expect_mpi_is_required() {
  try {
    World world(RunningMpi{0}, kTimeout);
  } catch (const Error& error) {
    expect(error.code() == ExitCode::kUsage, "MPI does not run, and the code is not that of usage");
    return;
  }
  throw run_error("a world began without MPI");
}

void check(int rank, int size) {
  check_world_of(rank % 2, rank);
  check_world_of(0, -rank);
  int one = 1, sum = 0;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect(sum == size, "MPI does not go on after finish()");
}

}  // namespace
}  // namespace dlrm

int main(int argc, char** argv) {
  try {
    dlrm::expect_mpi_is_required();
    int granted = 0, rank = 0, size = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &granted);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    dlrm::check(rank, size);
    const auto kept = dlrm::duplicate_of_a_world();
    MPI_Finalize();
    dlrm::expect_mpi_is_required();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
