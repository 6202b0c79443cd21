#pragma once
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "dlrm/comm/communicator.h"
#include "dlrm/device/device.h"

#include "../event_pool.h"
#include "../progress_engine.h"
#include "nccl_failure.h"
#include "nccl_library.h"

namespace dlrm::comm {

/// One rank's NCCL communicator and its stream, which NcclComm and its duplicates share. One thread
/// makes all calls, except failure().
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
  Stream& stream() const { return *stream_; }
  const std::shared_ptr<EventPool>& events() const { return events_; }
  int version() const { return nccl_.version; }

  /// Makes stream() wait for the work that `other` holds now. Null: does nothing.
  void wait_for(Stream* other);
  /// Runs `queue(library, comm, stream)` as one NCCL group. Each NCCL call in it goes through
  /// check(). Returns once NCCL has enqueued the group on stream(). Throws if NCCL or another rank
  /// failed.
  template <class Queue>
  void group(const char* name, Queue queue) {
    enter(name);
    {
      const std::lock_guard lock(mutex_);
      check(nccl_.group_start());
      queue(nccl_, comm_, native_);
      // Also after a failed call: an open group would take up later calls.
      check(nccl_.group_end());
    }
    poll_until_ready();
  }
  /// Records the failure of a call. The end of its group throws it.
  void check(ncclResult_t result) noexcept;
  /// Throws if NCCL or another rank failed.
  void check_alive();
  /// Returns device memory for one call. It is valid until stream() has passed the call.
  std::byte* scratch(size_t bytes);

  std::string failure() override;

 private:
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
  const std::unique_ptr<Stream> stream_;
  const cudaStream_t native_;
  const std::shared_ptr<EventPool> events_;
  Array<std::byte> scratch_;
  NcclFailure failure_;

  std::mutex mutex_;  // around NCCL calls
  ncclComm_t comm_ = nullptr;
  const char* name_ = "start";  // of the current group
  int remote_errors_seen_ = 0;  // by the watchdog
};

}  // namespace dlrm::comm
