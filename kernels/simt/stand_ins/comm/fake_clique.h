#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <cuda_runtime.h>

#include "comm/nccl/nccl_types.h"
#include "fake_mail.h"
#include "simt/simt.h"

/// How the calls of ranks that are threads meet in the stand-in for NCCL.
namespace dlrm::fake_nccl {

using Bytes = std::shared_ptr<std::vector<char>>;

/// A copy of the data that a rank sends. It is complete once `sent` has occurred on the sender's
/// stream.
struct Parcel {
  Bytes bytes;
  cudaEvent_t sent = nullptr;
};

/// The ranks' contributions to one collective.
struct Gathering {
  std::map<int, Parcel> parcels;
  int taken = 0;
};

/// The ranks of one unique id.
struct Clique {
  std::mutex mutex;
  int ranks = 0;
  int joined = 0;
  uint64_t number = 0;
  bool aborted = false;
  std::map<std::pair<int, int>, std::deque<Parcel>> mail;  // from, to
  std::map<uint64_t, Gathering> gatherings;
  // For calls that meet their peers when they run: captured ones, and those between processes. NCCL
  // keeps the order of the host's calls, so a call never meets one of another graph's launch.
  std::shared_ptr<FakeMail> late_mail, uncaptured_mail;
};

enum class Kind { kSend, kReceive, kAllReduce };

struct Op {
  Kind kind;
  const void* send;
  void* receive;
  size_t count;
  ncclDataType_t type;
  int peer;
  ncclComm_t comm;
  cudaStream_t stream;
  uint64_t number = 0;  // of the collective
  uint64_t group = 0;   // the same number on all ranks
};

/// Bytes of an element.
inline size_t width_of(ncclDataType_t type) {
  return type == ncclInt8 ? 1 : type == ncclFloat32 ? 4 : 8;
}

/// The calls of one thread between a group's start and its end.
struct Group {
  int depth = 0;
  bool refused = false;  // true if one of its calls was refused
  std::vector<Op> ops;
};

/// out[i] = parts[0][i] + parts[1][i] + ... for elements of `type`.
void reduce(const std::vector<Bytes>& parts, void* out, size_t count, ncclDataType_t type);

/// Publishes this rank's part of `op` to the peers. The caller holds the clique's mutex.
void show(Op& op);

/// Takes the peers' parts of the groups that are complete, and returns the communicator's state.
ncclResult_t state_of(ncclComm& comm);

}  // namespace dlrm::fake_nccl

struct ncclComm {
  std::shared_ptr<dlrm::fake_nccl::Clique> clique;
  int rank = 0;
  uint64_t collectives = 0;
  uint64_t calls = 0;                                     // groups
  std::deque<std::vector<dlrm::fake_nccl::Op>> groups{};  // waiting for parts of their peers
  ncclResult_t broken = ncclSuccess;
  // Used between processes. A peer may wait for work queued here while this process's host thread
  // waits for the peer.
  std::unique_ptr<simt::KeepRunning> running{};
  std::thread::id thread = std::this_thread::get_id();   // the rank's
  std::shared_ptr<dlrm::fake_nccl::Group> open_group{};  // of that thread
  // Graphs that hold calls of this communicator share it.
  std::shared_ptr<const int> graphs = std::make_shared<const int>(0);
  enum class End { kNone, kStarted, kDone } finalize = End::kNone;
};
