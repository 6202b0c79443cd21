// Runs the suite among ranks of mpirun, and compares sums bitwise with ranks as threads.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sched.h>
#include <unistd.h>

#include "dlrm/comm/device_comm.h"
#include "dlrm/comm/thread_comm.h"
#include "dlrm/comm/world.h"
#include "dlrm/core/file.h"

#include "../device_suite.h"
#include "../suite.h"
#include "comm/calls/progress_engine.h"
#include "comm/mpi/mpi_comm.h"
#include "comm/mpi/mpi_nodes.h"
#include "comm/shared/shared_memory_group.h"
#include "comm/world/control_group.h"
#include "comm/world/local_ranks.h"
#include "shared_calls.h"
#include "surroundings.h"
#include "traffic.h"

namespace {

thread_local int last_tag = -1;  // of a message; the watchdog sends messages too
int longest_message = 0;         // bytes
int tag_limit = 0;               // what MPI says is its largest tag; 0: as it is

}  // namespace

/// Takes the place of MPI's function, which remains reachable as PMPI_Isend.
extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag,
                         MPI_Comm comm, MPI_Request* request) {
  longest_message = std::max(longest_message, count);
  last_tag = tag;
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}

extern "C" int MPI_Comm_get_attr(MPI_Comm comm, int key, void* value, int* found) {
  const int code = PMPI_Comm_get_attr(comm, key, value, found);
  if (key == MPI_TAG_UB && tag_limit > 0) *static_cast<int**>(value) = &tag_limit;
  return code;
}

namespace dlrm {
namespace {

/// Every rank has the sums of ranks that are threads.
void compare_with_threads(Communicator& comm, int64_t count, DType wire) {
  const std::vector<float> sums = test::awkward_sums(comm, count, wire);
  std::vector<float> expected(sums.size());
  if (comm.rank() == 0) {
    run_on_threads(comm.size(), [&](Communicator& threads) {
      std::vector<float> of_thread = test::awkward_sums(threads, count, wire);
      if (threads.rank() == 0) expected = std::move(of_thread);
    });
  }
  comm.broadcast(expected.data(), count * 4, 0);
  if (expected != sums) throw run_error("sums of {} differ between threads and MPI", count);
}

/// No rank leaves a barrier of a device communicator before the last one has entered it.
void check_staged_barrier(Communicator& host) {
  namespace fs = std::filesystem;
  const std::shared_ptr<Device> device = make_cpu_device();
  const std::unique_ptr<Communicator> comm =
      make_device_comm(host, *device, {.kind = DeviceCommKind::kStaged});
  int64_t job = getpid();
  host.broadcast(&job, sizeof job, 0);
  for (int last = 0; last < host.size(); ++last) {
    const fs::path entered = fs::temp_directory_path() / fmt::format("barrier_{}_{}", job, last);
    if (host.rank() == last) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      File(entered, File::Mode::kCreate);
    }
    comm->barrier();
    const bool in_time = fs::exists(entered);
    host.barrier();
    if (host.rank() == last) fs::remove(entered);
    if (!in_time) throw run_error("rank {} left a barrier before rank {} came", host.rank(), last);
  }
}

/// Sums agree even if one rank has no shared memory left.
void check_sums_without_shared_memory(World& world) {
  MPI_Comm all = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &all);
  std::string why_not;
  const auto group = comm::SharedMemoryGroup::make(all, all, why_not);
  if (!group) throw run_error("no shared memory: {}", why_not);
  const auto comm = comm::make_mpi_comm(
      all, std::make_shared<comm::ProgressEngine>(comm::WaitPolicy::kYield), nullptr, group);
  if (world.rank() == world.size() - 1) group->arena().limit_to(0);
  for (const int64_t count : {50001, 3000000}) {
    compare_with_threads(*comm, count, DType::kFloat32);
    compare_with_threads(*comm, count, DType::kBFloat16);
  }
  std::vector<float> first(600000, 1.0f), second(600000, 2.0f);
  Pending sums[] = {comm->start_allreduce<float>(first), comm->start_allreduce<float>(second)};
  for (Pending& sum : sums) sum.wait();
  const auto ranks = static_cast<float>(world.size());
  if (first[599999] != ranks || second[0] != 2 * ranks) throw run_error("sums in flight differ");
  comm->barrier();
}

/// Blocks that lie far apart in the sender's ordinary memory are sent one by one.
void check_blocks_far_apart(Communicator& comm) {
  constexpr int64_t kApart = 12 << 20, kBytes = 3000;
  const auto ranks = static_cast<size_t>(comm.size());
  // The system provides only the pages that are written to.
  const std::unique_ptr<char[]> from(new char[ranks * kApart]);
  std::vector<char> to(ranks * kBytes);
  ExchangeLayout layout = ExchangeLayout::packed(std::vector<int64_t>(ranks, kBytes),
                                                 std::vector<int64_t>(ranks, kBytes));
  const auto value = [&](int sender, size_t receiver) {
    return static_cast<char>(static_cast<size_t>(sender) * ranks + receiver + 1);
  };
  for (size_t q = 0; q < ranks; ++q) {
    layout.send_offsets[q] = static_cast<int64_t>(q) * kApart;
    std::fill_n(from.get() + layout.send_offsets[q], kBytes, value(comm.rank(), q));
  }
  const int64_t before = comm.shared_memory_peak();
  comm.alltoallv(from.get(), to.data(), layout);
  for (size_t i = 0; i < to.size(); ++i) {
    const char expected = value(static_cast<int>(i / kBytes), static_cast<size_t>(comm.rank()));
    if (to[i] != expected) throw run_error("rank {}: byte {} is wrong", comm.rank(), i);
  }
  const int64_t taken = comm.shared_memory_peak() - before;
  if (taken > 10 << 20) throw run_error("rank {} copies {} bytes", comm.rank(), taken);
}

/// All ranks of the machine together may use the CPUs that any of them may use.
void check_cpus_of_all_ranks(Communicator& comm) {
  cpu_set_t before, one;
  sched_getaffinity(0, sizeof before, &before);
  CPU_ZERO(&one);
  for (int cpu = 0, left = comm.rank() % CPU_COUNT(&before); !CPU_COUNT(&one); ++cpu) {
    if (CPU_ISSET(cpu, &before) && left-- == 0) CPU_SET(cpu, &one);
  }
  sched_setaffinity(0, sizeof one, &one);
  const std::vector<int> nodes(static_cast<size_t>(comm.size()), 0);
  const comm::LocalRanks found =
      comm::find_local_ranks(MPI_COMM_WORLD, comm::NodeLayout(View<const int>(nodes), comm.rank()));
  cpu_set_t all;
  CPU_ZERO(&all);
  for (const cpu_set_t& of_rank : comm.allgather(one)) CPU_OR(&all, &all, &of_rank);
  sched_setaffinity(0, sizeof before, &before);
  const double expected = std::min<double>(CPU_COUNT(&all), comm::ControlGroup::cpus());
  if (found.cpus != expected || found.size != comm.size() || found.rank != comm.rank() ||
      !found.all_ranks) {
    throw run_error("rank {} finds {} CPUs, not {}", comm.rank(), found.cpus, expected);
  }
}

/// Each device whose memory the host can access has one that shares it, if ranks share memory.
void check_devices_that_share(Communicator& comm) {
  const std::shared_ptr<Device> first = make_cpu_device(), second = make_cpu_device();
  Device& shared = comm.shared_memory(*first);
  const bool shares = comm.describe().find("shared memory") != std::string::npos;
  if ((&shared != first.get()) != shares) {
    throw run_error("rank {}: shared memory of '{}' differs", comm.rank(), comm.describe());
  }
  if (&comm.shared_memory(*first) != &shared || &comm.shared_memory(*second) == &shared) {
    throw run_error("rank {}: devices share a device", comm.rank());
  }
}

/// Tags are less than what MPI permits, however many calls are under way.
void check_tags() {
  MPI_Comm all = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &all);
  tag_limit = 1000;
  const auto comm = comm::make_mpi_comm(
      all, std::make_shared<comm::ProgressEngine>(comm::WaitPolicy::kYield), nullptr, nullptr);
  std::vector<Pending> under_way;
  for (int i = 0; i < 40; ++i) {
    under_way.push_back(comm->start_barrier());
    if (last_tag < 0 || last_tag >= tag_limit) throw run_error("tag {}", last_tag);
  }
  for (Pending& barrier : under_way) barrier.wait();
  tag_limit = 0;
}

void check_staged_calls(Communicator& host) {
  const std::shared_ptr<Device> device = make_cpu_device();
  const std::unique_ptr<Communicator> wire =
      make_device_comm(host, *device, {.kind = DeviceCommKind::kStaged});
  test::check_device_everything({host, *wire, *device}, true);
}

void check(World& world) {
  Trace trace;
  world.start_watchdog(20, trace);
  check_blocks_far_apart(world.comm());
  test::check_everything(world.comm());
  check_staged_calls(world.comm());
  check_staged_barrier(world.comm());
  check_devices_that_share(world.comm());
  if (world.size() > 1) {
    check_cpus_of_all_ranks(world.comm());
    check_tags();
    test::check_surroundings(world);
  }
  const bool one_node = world.comm().nodes().back() == 0;
  if (one_node && world.comm().node_layout()) throw run_error("one node needs no layout");
  if (one_node && !std::getenv("DLRM_SHARED_MEMORY")) {
    if (world.size() > 1) test::check_shared_calls(world.comm());
  }
  for (const int threads : {1, 3}) {  // of each rank, for large sums and copies
    world.use_threads(threads);
    for (const int64_t count : {1, 100, 1023, 1025, 50001, 3000000}) {
      compare_with_threads(world.comm(), count, DType::kFloat32);
      compare_with_threads(world.comm(), count, DType::kBFloat16);
    }
  }
  if (one_node && !std::getenv("DLRM_SHARED_MEMORY") && world.size() > 1) {
    test::check_shared_calls(world.comm());
  }
}

/// A block that takes several messages, because the counts of MPI are ints. A part of its words is
/// compared: those of the last messages, and some of each page of the others.
/// Messages have at most `longest` bytes.
void check_long_block(Communicator& comm, int64_t bytes, int longest) {
  const bool sends = comm.rank() == 0;
  std::vector<uint32_t> block(static_cast<size_t>(bytes / 4));
  const auto value_at = [](size_t i) { return static_cast<uint32_t>(i * 2654435761u); };
  const auto next = [&](size_t i) { return i + (i + (1 << 20) < block.size() ? 251 : 1); };
  for (size_t i = 0; sends && i < block.size(); i = next(i)) block[i] = value_at(i);
  const std::vector<int64_t> to_next{0, bytes}, none{0, 0};
  const auto layout =
      sends ? ExchangeLayout::packed(to_next, none) : ExchangeLayout::packed(none, {bytes, 0});
  comm.alltoallv(block.data(), block.data(), layout);
  for (size_t i = 0; i < block.size(); i = next(i)) {
    if (block[i] != value_at(i)) throw run_error("rank {}: word {} is wrong", comm.rank(), i);
  }
  if (longest_message <= longest) return;
  throw run_error("rank {} sends a message of {} bytes", comm.rank(), longest_message);
}

/// Runs the suite as if on several nodes, which share memory only within a node. Ranks of one
/// `node` are in the order of `place`.
void check_across_machines(int node, int place) {
  MPI_Comm all = MPI_COMM_NULL, local = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &all);
  MPI_Comm_split(MPI_COMM_WORLD, node, place, &local);
  std::string why_not;
  const auto group = comm::SharedMemoryGroup::make(all, local, why_not);
  const auto nodes = comm::find_node_layout(all, local);
  MPI_Comm_free(&local);
  if (!group) throw run_error("no shared memory: {}", why_not);
  const auto comm = comm::make_mpi_comm(
      all, std::make_shared<comm::ProgressEngine>(comm::WaitPolicy::kYield), nodes, group);
  test::check_everything(*comm);
  check_staged_calls(*comm);
  for (const int64_t count : {1025, 50001}) {
    compare_with_threads(*comm, count, DType::kFloat32);
    compare_with_threads(*comm, count, DType::kBFloat16);
  }
  comm->barrier();
}

}  // namespace
}  // namespace dlrm

int main(int argc, char** argv) {
  dlrm::World world(&argc, &argv);
  try {
    if (argc > 1 && std::string_view(argv[1]) == "machines") {
      const int rank = world.rank();
      dlrm::check_across_machines(rank / 3, rank);
      dlrm::check_across_machines(rank % 2, -rank);
    } else if (argc > 1 && std::string_view(argv[1]) == "exhausted") {
      dlrm::check_sums_without_shared_memory(world);
    } else if (argc > 1 && std::string_view(argv[1]) == "traffic") {
      dlrm::test::check_node_traffic(world.comm());
    } else if (argc > 1 && std::string_view(argv[1]) == "long") {
      constexpr int kGiB = 1 << 30;
      dlrm::check_long_block(world.comm(), kGiB + int64_t{12}, kGiB);
    } else if (argc > 1 && std::string_view(argv[1]) == "long-apart") {
      // 300 messages of the most that Open MPI sends over TCP without asking, and one more.
      dlrm::check_long_block(world.comm(), 300 * (60 << 10) + 12, (64 << 10) - 256);
    } else {
      dlrm::check(world);
    }
  } catch (const dlrm::Error& error) {
    world.end_all(error.code(), error.what());
  }
  world.finish();
  return 0;
}
