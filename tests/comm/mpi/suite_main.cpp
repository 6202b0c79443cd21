// Every check of the suite among ranks of mpirun, and bitwise agreement with ranks as threads.
#include <cstdio>
#include <vector>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/comm/world.h"

#include "../suite.h"

namespace dlrm {
namespace {

void compare_with_threads(Communicator& comm, int64_t count, DType wire) {
  const std::vector<float> sums = test::awkward_sums(comm, count, wire);
  run_on_threads(comm.size(), [&](Communicator& threads) {
    if (test::awkward_sums(threads, count, wire) != sums) {
      throw run_error("sums of {} differ between threads and MPI", count);
    }
  });
}

void check(World& world) {
  Trace trace;
  world.start_watchdog(20, trace);
  test::check_everything(world.comm());
  for (const int64_t count : {1, 100, 1023, 1025, 50001, 3000000}) {
    compare_with_threads(world.comm(), count, DType::kFloat32);
    compare_with_threads(world.comm(), count, DType::kBFloat16);
  }
}

}  // namespace
}  // namespace dlrm

int main(int argc, char** argv) {
  dlrm::World world(&argc, &argv);
  try {
    dlrm::check(world);
  } catch (const dlrm::Error& error) {
    world.end_all(error.code(), error.what());
  }
  world.finish();
  return 0;
}
