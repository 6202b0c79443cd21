#include "fake_nccl.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "comm/nccl/nccl_library.h"
#include "fake_clique.h"
#include "fake_mail.h"
#include "nccl_calls.h"
#include "simt/simt.h"

namespace dlrm {

std::atomic<bool> FakeNccl::network_down{false};
std::atomic<int> FakeNccl::refused_sender{-1};
std::atomic<int> FakeNccl::version{22809};

namespace {

using namespace fake_nccl;

constexpr int kWaitsForGraphs = 22600;  // the first version that does

thread_local const std::shared_ptr<Group> group_of_thread = std::make_shared<Group>();

/// The unique ids of this process.
struct Registry {
  std::mutex mutex;
  uint64_t next = 1;
  std::map<uint64_t, std::shared_ptr<Clique>> cliques;
  std::map<std::thread::id, int> communicators;  // of each rank
};
Registry& registry() {
  static auto* all = new Registry;  // never destroyed: a call may outlast main()
  return *all;
}

ncclResult_t get_version(int* version) {
  *version = FakeNccl::version.load();
  return ncclSuccess;
}

ncclResult_t get_unique_id(ncclUniqueId* id) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const uint64_t number = (static_cast<uint64_t>(::getpid()) << 32) + all.next++;
  std::memcpy(id->internal, &number, sizeof number);
  return ncclSuccess;
}

/// The folder in which ranks meet if they are processes. Empty if ranks are threads of this
/// process.
std::string folder_of(uint64_t number) {
  const char* folder = std::getenv("DLRM_NCCL_STAND_IN");
  return folder ? std::string(folder) + "/" + std::to_string(number) : "";
}

bool keeps_launch_order() {
  const char* value = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  return value && std::string(value) == "1";
}

void forget(ncclComm_t comm) {
  {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    if (--all.communicators[comm->thread] == 0) all.communicators.erase(comm->thread);
  }
  delete comm;
}

ncclResult_t comm_init_rank_config(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                   ncclConfig_t* config) {
  note_nccl_call("init");
  if (config->blocking != 0) return ncclInvalidArgument;
  uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  int& communicators = all.communicators[std::this_thread::get_id()];
  if (communicators > 0 && !keeps_launch_order()) return ncclInvalidUsage;
  ++communicators;
  std::shared_ptr<Clique>& clique = all.cliques[number];
  if (!clique) clique = std::make_shared<Clique>();
  const std::lock_guard inside(clique->mutex);
  clique->ranks = ranks;
  clique->number = number & 0x7fffffffu;
  if (!clique->late_mail) {
    const std::string folder = folder_of(number);
    clique->late_mail = std::make_shared<FakeMail>(ranks, folder);
    clique->uncaptured_mail =
        std::make_shared<FakeMail>(ranks, folder.empty() ? "" : folder + "/uncaptured");
  }
  ++clique->joined;
  *comm = new ncclComm{.clique = clique, .rank = rank, .open_group = group_of_thread};
  if (clique->late_mail->between_processes()) {
    (*comm)->running = std::make_unique<simt::KeepRunning>();
  }
  if (clique->joined == ranks) all.cliques.erase(number);
  return ncclInProgress;
}

bool is_in_graphs(const ncclComm& comm) {
  return FakeNccl::version.load() >= kWaitsForGraphs && comm.graphs.use_count() > 1;
}

/// Blocks while any graph holds a call of `comm`, like NCCL.
void wait_for_graphs(ncclComm& comm, const std::string& call) {
  if (is_in_graphs(comm)) cudaDeviceSynchronize();  // a launch keeps what it runs
  if (!is_in_graphs(comm)) return;
  note_nccl_call(call + " that waits for graphs", comm.thread);
  while (is_in_graphs(comm)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

ncclResult_t comm_finalize(ncclComm_t comm) {
  note_nccl_call("finalize", comm->thread);
  comm->finalize = ncclComm::End::kStarted;
  const ncclResult_t state = state_of(*comm);
  return state == ncclSuccess ? ncclInProgress : state;
}

ncclResult_t comm_destroy(ncclComm_t comm) {
  const bool early = comm->finalize == ncclComm::End::kStarted;
  note_nccl_call(early ? "destroy before finalize was done" : "destroy", comm->thread);
  wait_for_graphs(*comm, "destroy");
  forget(comm);
  return ncclSuccess;
}

ncclResult_t comm_abort(ncclComm_t comm) {
  if (comm->open_group->depth > 0) {
    note_nccl_call("abort that waits for the group's end", comm->thread);
    return ncclInProgress;
  }
  {
    const std::lock_guard lock(comm->clique->mutex);
    comm->clique->aborted = true;
    comm->clique->late_mail->end();
    comm->clique->uncaptured_mail->end();
  }
  wait_for_graphs(*comm, "abort");
  note_nccl_call("abort", comm->thread);
  forget(comm);
  return ncclSuccess;
}

ncclResult_t comm_get_async_error(ncclComm_t comm, ncclResult_t* state) {
  *state = state_of(*comm);
  if (*state != ncclSuccess || comm->finalize != ncclComm::End::kStarted) return ncclSuccess;
  if (is_in_graphs(*comm)) cudaDeviceSynchronize();
  if (is_in_graphs(*comm)) {
    *state = ncclInProgress;
  } else {
    comm->finalize = ncclComm::End::kDone;
  }
  return ncclSuccess;
}

const char* get_error_string(ncclResult_t result) {
  switch (result) {
    case ncclSystemError:
      return "unhandled system error";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInvalidUsage:
      return "invalid usage";
    default:
      return "an error of the stand-in";
  }
}

const char* get_last_error(ncclComm_t) { return ""; }

bool is_captured(const Op& op) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(op.stream, &status);
  return status != cudaStreamCaptureStatusNone;
}

/// Queues `ops`, or captures them into a graph. They meet the peers' operations when they run.
void queue_late(const ncclComm& comm, const std::vector<Op>& ops) {
  const bool captured = is_captured(ops.front());
  FakeMail& mail = captured ? *comm.clique->late_mail : *comm.clique->uncaptured_mail;
  const FakeMail::Owner owner = captured ? comm.graphs : nullptr;
  for (const Op& op : ops) {  // a group's sends do not wait for its receives
    const size_t bytes = op.count * width_of(op.type);
    if (op.kind == Kind::kSend) mail.send(comm.rank, op.peer, op.send, bytes, op.stream, owner);
  }
  for (const Op& op : ops) {
    const size_t bytes = op.count * width_of(op.type);
    if (op.kind == Kind::kSend) continue;
    if (op.kind == Kind::kReceive) {
      mail.receive(op.peer, comm.rank, op.receive, bytes, op.stream, owner);
      continue;
    }
    const auto add_parts = [op](const std::vector<FakeMail::Bytes>& all) {
      std::vector<Bytes> parts;
      for (const auto& part : all) parts.push_back(std::make_shared<std::vector<char>>(part));
      reduce(parts, op.receive, op.count, op.type);
    };
    mail.gather(comm.rank, op.send, bytes, add_parts, op.stream, owner);
  }
}

ncclResult_t open_group() {
  ++group_of_thread->depth;
  return ncclSuccess;
}

ncclResult_t close_group() {
  Group& group = *group_of_thread;
  if (--group.depth > 0) return ncclSuccess;
  const std::vector<Op> ops = std::exchange(group.ops, {});
  if (std::exchange(group.refused, false)) return ncclInvalidUsage;
  if (ops.empty()) return ncclSuccess;
  ncclComm& comm = *ops.front().comm;
  const uint64_t number = (comm.clique->number << 32) + ++comm.calls;
  if (comm.clique->late_mail->between_processes() || is_captured(ops.front())) {
    queue_late(comm, ops);
    return ncclSuccess;
  }
  {
    const std::lock_guard lock(comm.clique->mutex);
    const simt::PartOfCollective part(number);
    comm.groups.push_back(ops);
    for (Op& op : comm.groups.back()) {
      op.group = number;
      show(op);
    }
  }
  return state_of(comm);
}

ncclResult_t group_start() {
  note_nccl_call("group start");
  return open_group();
}

ncclResult_t group_end() {
  note_nccl_call("group end");
  return close_group();
}

ncclResult_t add(const Op& op) {
  open_group();
  if (op.kind == Kind::kSend && op.comm->rank == FakeNccl::refused_sender.load()) {
    note_nccl_call("refused send");
    group_of_thread->refused = true;
    close_group();
    return ncclSystemError;
  }
  group_of_thread->ops.push_back(op);
  return close_group();
}

ncclResult_t send(const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                  cudaStream_t stream) {
  note_nccl_bytes(peer, count * width_of(type));
  return add({Kind::kSend, from, nullptr, count, type, peer, comm, stream});
}
ncclResult_t recv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                  cudaStream_t stream) {
  return add({Kind::kReceive, nullptr, to, count, type, peer, comm, stream});
}
ncclResult_t all_reduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t,
                        ncclComm_t comm, cudaStream_t stream) {
  return add({Kind::kAllReduce, from, to, count, type, 0, comm, stream});
}

comm::NcclLibrary stand_in() {
  comm::NcclLibrary n;
  n.get_version = get_version;
  n.get_unique_id = get_unique_id;
  n.comm_init_rank_config = comm_init_rank_config;
  n.comm_finalize = comm_finalize;
  n.comm_destroy = comm_destroy;
  n.comm_abort = comm_abort;
  n.comm_get_async_error = comm_get_async_error;
  n.get_error_string = get_error_string;
  n.get_last_error = get_last_error;
  n.group_start = group_start;
  n.group_end = group_end;
  n.send = send;
  n.recv = recv;
  n.all_reduce = all_reduce;
  return n;
}

}  // namespace

const comm::NcclLibrary& comm::nccl_library() {
  // One object for each version, because sessions of several threads read it.
  static std::map<int, NcclLibrary> by_version;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const int version = FakeNccl::version.load();
  NcclLibrary& library = by_version.try_emplace(version, stand_in()).first->second;
  library.version = version;
  return library;
}

}  // namespace dlrm
