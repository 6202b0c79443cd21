#pragma once
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dlrm/comm/communicator.h"
#include "dlrm/device/device.h"

#include "comm/calls/progress_engine.h"
#include "comm/device/event_pool.h"
#include "comm/world/node_layout.h"
#include "nccl_failure.h"
#include "nccl_lane.h"
#include "nccl_library.h"

namespace dlrm::comm {

/// One rank's NCCL communicators and their streams, which NcclComm and its duplicates share. One
/// thread makes all calls, except failure().
///
/// There are two lanes, so that sums do not wait for exchanges that were started before, if NCCL
/// keeps the order in which the host launches kernels of several communicators. Otherwise there is
/// one. A failure of a lane ends both.
///
/// NCCL ends a communicator only once no graph holds its calls. A session therefore has such graphs
/// dropped first, and it waits for NCCL's end for a limited time.
class NcclSession : public FailureSource {
 public:
  static constexpr std::chrono::milliseconds kEndLimit{60'000};

  /// Collective. `host` connects the ranks. After `end_limit` without an answer of NCCL, the end of
  /// the session, or its abort, leaves NCCL's communicators as they are.
  NcclSession(std::unique_ptr<Communicator> host, Device& device,
              std::chrono::milliseconds end_limit = kEndLimit);
  /// Collective, unless a call failed. Then NCCL's kernels are aborted.
  ~NcclSession() override;
  NcclSession(const NcclSession&) = delete;
  NcclSession& operator=(const NcclSession&) = delete;

  Communicator& host() const { return *host_; }
  Device& device() const { return device_; }
  NcclLane& exchanges() { return *lanes_.front(); }
  NcclLane& sums() { return *lanes_.back(); }
  const std::shared_ptr<EventPool>& events() const { return events_; }
  int version() const { return nccl_.version; }
  const NodeLayout& nodes() const { return nodes_; }

  /// Makes the lane wait for the work that `other` holds now. Null: does nothing.
  void wait_for(Stream* other, NcclLane& lane);
  /// Runs `queue(library, comm, stream)` as one NCCL group. Each NCCL call in it goes through
  /// check(). Returns once NCCL has enqueued the group on the lane's stream. Throws if NCCL or
  /// another rank failed.
  template <class Queue>
  void group(const char* name, NcclLane& lane, Queue queue) {
    enter(name);
    {
      const std::lock_guard lock(mutex_);
      check(nccl_.group_start());
      queue(nccl_, lane.comm, lane.native);
      // Also after a failed call: an open group would take up later calls.
      check(nccl_.group_end());
    }
    poll_until_ready();
  }
  /// Records the failure of a call. The end of its group throws it.
  void check(ncclResult_t result) noexcept;
  /// Throws if NCCL or another rank failed.
  void check_alive();
  /// See Communicator::before_end().
  std::shared_ptr<void> before_end(std::function<void()> drop_graphs);

  std::string failure() override;

 private:
  void start();
  size_t common_lanes();
  bool ended() const { return !lanes_.front()->comm; }
  void enter(const char* name);
  void poll_until_ready();
  /// Returns whether NCCL is ready. Otherwise makes progress on the host's calls.
  bool poll_once(int64_t polls);
  ncclResult_t poll_state();
  void throw_if_failed();
  void wait_for_peer_error();
  void check_host();
  std::string describe(ncclResult_t result) const;
  void finalize() noexcept;
  void abort() noexcept;
  void drop_graphs() noexcept;
  /// Passes each lane's communicator to `end`, which waits for the device, on a thread of its own.
  void end_all(ncclResult_t (*end)(ncclComm_t));

  const NcclLibrary& nccl_;
  const std::unique_ptr<Communicator> host_;
  const NodeLayout nodes_;
  Device& device_;
  const int gpu_;
  const int exceptions_ = std::uncaught_exceptions();
  const std::thread::id thread_ = std::this_thread::get_id();
  const std::shared_ptr<EventPool> events_;
  std::vector<std::unique_ptr<NcclLane>> lanes_;
  NcclFailure failure_;
  const std::chrono::milliseconds end_limit_;
  std::vector<std::weak_ptr<std::function<void()>>> before_end_;

  std::mutex mutex_;            // around NCCL calls
  const char* name_ = "start";  // of the current group
  int remote_errors_seen_ = 0;  // by the watchdog
};

}  // namespace dlrm::comm
