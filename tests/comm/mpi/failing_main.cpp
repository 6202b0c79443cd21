// Lets each call of MPI fail in turn, on all ranks. A call that fails is an error that names what
// failed. Only the start of shared memory may fail without one: ranks then exchange through MPI.
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "dlrm/comm/world.h"

#include "comm/mpi/mpi_c.h"

namespace {

/// Decides whether a call fails, by its name. Only calls of the main thread are asked.
std::function<bool(const char*)> fails;
std::thread::id main_thread;

bool refused(const char* name) {
  return std::this_thread::get_id() == main_thread && fails && fails(name);
}

}  // namespace

// These take the places of MPI's functions, which remain reachable as PMPI_...
#define FUNCTION(name, parameters, ...)                                      \
  extern "C" int MPI_##name parameters {                                     \
    return refused("MPI_" #name) ? MPI_ERR_OTHER : PMPI_##name(__VA_ARGS__); \
  }
FUNCTION(Comm_rank, (MPI_Comm comm, int* rank), comm, rank)
FUNCTION(Comm_size, (MPI_Comm comm, int* size), comm, size)
FUNCTION(Query_thread, (int* granted), granted)
FUNCTION(Comm_dup, (MPI_Comm comm, MPI_Comm* copy), comm, copy)
FUNCTION(Comm_idup, (MPI_Comm comm, MPI_Comm* copy, MPI_Request* request), comm, copy, request)
FUNCTION(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm* made), comm, color, key, made)
FUNCTION(Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* made), comm,
         type, key, info, made)
FUNCTION(Comm_set_errhandler, (MPI_Comm comm, MPI_Errhandler handler), comm, handler)
FUNCTION(Comm_get_attr, (MPI_Comm comm, int key, void* value, int* found), comm, key, value, found)
FUNCTION(Allreduce,
         (const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), from,
         to, count, type, op, comm)
FUNCTION(Allgather,
         (const void* from, int count, MPI_Datatype type, void* to, int each, MPI_Datatype into,
          MPI_Comm comm),
         from, count, type, to, each, into, comm)
FUNCTION(Iallgather,
         (const void* from, int count, MPI_Datatype type, void* to, int each, MPI_Datatype into,
          MPI_Comm comm, MPI_Request* request),
         from, count, type, to, each, into, comm, request)
FUNCTION(Isend,
         (const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
          MPI_Request* request),
         data, count, type, to, tag, comm, request)
FUNCTION(Irecv,
         (void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
          MPI_Request* request),
         data, count, type, from, tag, comm, request)
FUNCTION(Testall, (int count, MPI_Request* requests, int* done, MPI_Status* statuses), count,
         requests, done, statuses)
FUNCTION(Get_count, (const MPI_Status* status, MPI_Datatype type, int* count), status, type, count)

namespace dlrm {
namespace {

constexpr double kTimeout = 60;

/// Its end does not fail.
void make_world() {
  const World world(RunningMpi{MPI_Comm_c2f(MPI_COMM_WORLD)}, kTimeout);
  fails = {};
}

void require(bool holds, const std::string& what, const std::string& ending) {
  if (!holds) throw run_error("{}: it ended with '{}'", what, ending);
}

std::string end_of(const std::function<void()>& act) {
  std::string ending = "done";
  try {
    act();
  } catch (const Error& error) {
    ending = fmt::format("{}: {}", static_cast<int>(error.code()), error.what());
  }
  fails = {};
  return ending;
}

bool is_error_of_mpi(const std::string& ending) {
  return ending.starts_with("3: MPI failed in ") &&
         ending.find("MPI_ERR_OTHER") != std::string::npos;
}

/// Each call of the start of a world.
void start() {
  std::vector<std::string> calls;
  fails = [&](const char* name) {
    calls.emplace_back(name);
    return false;
  };
  require(end_of(make_world) == "done", "the start", "an error");
  for (size_t at = 0; at < calls.size(); ++at) {
    // An error of the division into nodes ends the process.
    if (calls[at] == "MPI_Comm_split" ||
        (at + 1 < calls.size() && calls[at + 1] == "MPI_Comm_split")) {
      continue;
    }
    fails = [at, number = size_t{0}](const char*) mutable { return number++ == at; };
    const std::string ending = end_of(make_world);
    require(ending == "done" || is_error_of_mpi(ending), "the start without " + calls[at], ending);
  }
}

/// `act` if the first call of each of these names fails, where it is made.
void fail_each(const std::string& what, const std::vector<std::string>& names,
               const std::function<void()>& act) {
  for (const std::string& name : names) {
    bool failed = false;
    fails = [&](const char* called) { return !failed && (failed = name == called); };
    const std::string ending = end_of(act);
    require(failed ? is_error_of_mpi(ending) : ending == "done", what + " without " + name, ending);
  }
}

/// Every rank sends `sent` bytes to every other one, which expects `expected`.
void exchange(Communicator& comm, int64_t sent, int64_t expected) {
  const auto ranks = static_cast<size_t>(comm.size());
  std::vector<int64_t> sends(ranks, sent), receives(ranks, expected);
  const auto own = static_cast<size_t>(comm.rank());
  sends[own] = receives[own] = 0;
  std::vector<char> data(ranks * static_cast<size_t>(sent)),
      received(ranks * static_cast<size_t>(expected));
  comm.alltoallv(data.data(), received.data(), ExchangeLayout::packed(sends, receives));
}

void use(World& world) {
  fail_each("a duplicate",
            {"MPI_Comm_idup", "MPI_Iallgather", "MPI_Comm_set_errhandler", "MPI_Comm_rank",
             "MPI_Comm_size", "MPI_Comm_get_attr"},
            [&] { world.comm().duplicate(); });
  for (const int64_t bytes : {100, 20000}) {
    for (const std::string name : {"MPI_Irecv", "MPI_Isend", "MPI_Testall", "MPI_Get_count"}) {
      const auto comm = world.comm().duplicate();
      fail_each("an exchange", {name}, [&] { exchange(*comm, bytes, bytes); });
      world.comm().barrier();
    }
    const auto comm = world.comm().duplicate();
    const std::string ending = end_of([&] { exchange(*comm, bytes + 8, bytes); });
    require(ending.starts_with("3: ") && ending.find("alltoallv") != std::string::npos,
            "more bytes than expected", ending);
    world.comm().barrier();
  }
}

}  // namespace
}  // namespace dlrm

int main(int argc, char** argv) {
  main_thread = std::this_thread::get_id();
  int granted = 0, rank = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &granted);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  bool fine = true;
  try {
    dlrm::start();
    dlrm::World world(dlrm::RunningMpi{MPI_Comm_c2f(MPI_COMM_WORLD)}, dlrm::kTimeout);
    dlrm::use(world);
    if (rank == 0) std::fprintf(stderr, "all calls ended as they should\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    fine = false;
  }
  MPI_Finalize();
  return fine ? 0 : 1;
}
