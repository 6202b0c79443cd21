// Stops some ranks where the first argument says, while they start or end. The functions of MPI
// below take the place of the library's.
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "dlrm/comm/world.h"

#include "comm/mpi/mpi_c.h"

namespace {

constexpr double kTimeout = 3;

const char* place = "";
const char* ranks = "";  // one digit each
std::atomic<bool> probing_hangs{false};

void stop_at(const char* here) {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (std::strcmp(here, place) == 0 && rank && std::strchr(ranks, *rank)) std::raise(SIGSTOP);
}

}  // namespace

extern "C" {

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  stop_at("init");
  return PMPI_Init_thread(argc, argv, required, provided);
}

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* made) {
  stop_at("split");
  return PMPI_Comm_split_type(comm, type, key, info, made);
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* made) {
  stop_at("duplicate");
  return PMPI_Comm_dup(comm, made);
}

int MPI_Iprobe(int from, int tag, MPI_Comm comm, int* there, MPI_Status* status) {
  while (probing_hangs) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return PMPI_Iprobe(from, tag, comm, there, status);
}

int MPI_Finalize() {
  stop_at("finalize");
  return PMPI_Finalize();
}

}  // extern "C"

int main(int argc, char** argv) {
  if (argc != 3) return 1;
  place = argv[1];
  ranks = argv[2];
  try {
    stop_at("main");
    dlrm::World world(&argc, &argv, kTimeout);
    stop_at("watchdog");
    dlrm::Trace trace;
    world.start_watchdog(kTimeout, trace);
    world.comm().barrier();
    // As a rank that is stopped within the library may make it hang for all others.
    probing_hangs = std::strcmp(place, "library") == 0;
    stop_at("library");
    if (probing_hangs) std::this_thread::sleep_for(std::chrono::hours(1));
    world.finish();
  } catch (...) {
    return 1;
  }
  return 0;
}
