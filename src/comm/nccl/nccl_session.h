#pragma once
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dlrm/comm/communicator.h"
#include "dlrm/device/device.h"

#include "../event_pool.h"
#include "../progress_engine.h"
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
class NcclSession : public FailureSource {
 public:
  /// Collective. `host` connects the ranks.
  NcclSession(std::unique_ptr<Communicator> host, Device& device);
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

  std::string failure() override;

 private:
  void start();
  size_t common_lanes();
  bool ended() const { return !lanes_.front()->comm; }
  void enter(const char* name);
  void poll_until_ready();
  ncclResult_t poll_state();
  void throw_if_failed();
  void wait_for_peer_error();
  void check_host();
  std::string describe(ncclResult_t result) const;
  void finalize() noexcept;
  void abort() noexcept;

  const NcclLibrary& nccl_;
  const std::unique_ptr<Communicator> host_;
  Device& device_;
  const int gpu_;
  const int exceptions_ = std::uncaught_exceptions();
  const std::thread::id thread_ = std::this_thread::get_id();
  const std::shared_ptr<EventPool> events_;
  std::vector<std::unique_ptr<NcclLane>> lanes_;
  NcclFailure failure_;

  std::mutex mutex_;            // around NCCL calls
  const char* name_ = "start";  // of the current group
  int remote_errors_seen_ = 0;  // by the watchdog
};

}  // namespace dlrm::comm
