#pragma once
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "dlrm/comm/communicator.h"
#include "dlrm/device/device.h"

#include "../event_pool.h"
#include "../progress.h"
#include "nccl_library.h"

namespace dlrm {

/// One rank's NCCL communicator and its stream: what NcclComm and its duplicates share. All calls
/// come from one thread; failure() from any.
class NcclSession : public Health {
 public:
  /// Collective. `host` brings the ranks together.
  NcclSession(std::unique_ptr<Communicator> host, Device& device);
  /// Collective, unless something failed: then NCCL's kernels are ended by force.
  ~NcclSession() override;
  NcclSession(const NcclSession&) = delete;
  NcclSession& operator=(const NcclSession&) = delete;

  Communicator& host() const { return *host_; }
  Device& device() const { return device_; }
  Stream& stream() const { return *stream_; }
  const std::shared_ptr<EventPool>& events() const { return events_; }
  int version() const { return nccl_.version; }

  /// What comes next on stream() starts after what `given` holds now.
  void begin_after(Stream* given);
  /// Runs `queue(library, comm, stream)`, in which each call of NCCL goes through check(), as one
  /// group, and returns once NCCL has put it on the stream.
  template <class Queue>
  void group(const char* name, Queue queue) {
    enter(name);
    {
      const std::lock_guard lock(mutex_);
      check(nccl_.group_start());
      queue(nccl_, comm_, native_);
      // Also after a refusal: what comes next would be part of a group that was left open.
      check(nccl_.group_end());
    }
    settle();
  }
  /// Keeps what NCCL said of a call that it refused. The group's end throws it.
  void check(ncclResult_t result) noexcept;
  /// Throws where NCCL or another rank failed.
  void check_alive();
  /// Device memory for one step of a call, free again when stream() has got past it.
  std::byte* scratch(size_t bytes);

  std::string failure() override;

 private:
  void enter(const char* name);
  void settle();
  ncclResult_t state();
  /// Throws what NCCL failed with, once its kernels are ended: streams that wait for them go on.
  void throw_if_failed();
  /// Gives the own error of a rank that failed time to end this one too.
  void hear_of_peer();
  void check_host();
  void keep_words(ncclResult_t result) noexcept;
  std::string words_of(ncclResult_t result) const;
  void end() noexcept;
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

  std::mutex mutex_;  // around calls of NCCL
  ncclComm_t comm_ = nullptr;
  const char* name_ = "start";   // of the group that is made
  int remote_errors_heard_ = 0;  // by the watchdog, under mutex_

  std::mutex words_mutex_;    // never held while NCCL is called: the watchdog asks whatever happens
  std::string words_;         // of the first failure
  bool peer_failed_ = false;  // and that is all NCCL says
  int failures_told_ = 0;     // to the watchdog, which passes over the first ones
  std::atomic<bool> failed_{false};
};

}  // namespace dlrm
