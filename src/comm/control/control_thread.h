#pragma once
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dlrm/core/error.h"
#include "dlrm/core/trace.h"

#include "comm/calls/progress_engine.h"
#include "control_channel.h"
#include "job_end.h"
#include "wait_limit.h"
#include "watchdog.h"

namespace dlrm::comm {

/// The limit for the MPI calls of one poll with a watchdog of this timeout; 0: not started.
double seconds_of_a_poll(double timeout);

/// A rank's control thread. It runs the watchdog and ends the process when the job ends, whatever
/// the main thread is doing. The public functions are for other threads.
class ControlThread {
 public:
  /// @param channel  to the other ranks; null for a single rank, and if MPI does not support
  ///                 threads. Without a channel the thread starts with the watchdog.
  /// @param limit    for the MPI calls of this thread; null: none
  ControlThread(int rank, int size, std::unique_ptr<ControlChannel> channel,
                std::shared_ptr<ProgressEngine> engine, WaitLimit* limit = nullptr);
  ~ControlThread();
  ControlThread(const ControlThread&) = delete;
  ControlThread& operator=(const ControlThread&) = delete;

  /// Does nothing if there are several ranks and no channel.
  void start_watchdog(double timeout_seconds, const Trace& trace);
  void pause_watchdog(bool paused) { watchdog_.pause(paused); }
  [[noreturn]] void end_all(ExitCode code, const std::string& text);
  /// Sends no further reports. Returns once all messages have left. Has no time limit of its own.
  void stop_reports();
  /// Ends the thread.
  void stop();

 private:
  void launch();
  void run();
  void poll();
  void receive_messages();

  const int rank_;
  const int size_;
  const std::unique_ptr<ControlChannel> channel_;
  const std::shared_ptr<ProgressEngine> engine_;
  WaitLimit* const limit_;
  Watchdog watchdog_;
  JobEnd job_end_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<JobEnd::Request> own_requests_;  // under mutex_
  bool stopping_ = false;                      // under mutex_
  std::atomic<bool> flushed_{false};           // reports are stopped and all messages have left
  std::thread thread_;
};

}  // namespace dlrm::comm
