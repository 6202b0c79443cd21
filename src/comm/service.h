#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dlrm/core/error.h"
#include "dlrm/core/trace.h"

#include "progress.h"
#include "stall.h"
#include "wire.h"

namespace dlrm {

/// A rank's own thread beside the training: hears that the job ends, tells the others so, and is
/// the watchdog. Rank 0's collects the reasons for an end and prints one.
class Service {
 public:
  /// Without a wire (one rank) the thread starts with the watchdog.
  Service(int rank, int size, std::unique_ptr<Wire> wire, std::shared_ptr<ProgressEngine> engine);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  void start_watchdog(double timeout_seconds, const Trace& trace);
  void pause(bool paused) { paused_.store(paused); }
  [[noreturn]] void end_all(ExitCode code, const std::string& text);
  /// Sends no reports from here on; returns when all messages have left.
  void hush();
  /// Ends the thread.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  enum Kind : int { kReport = 1, kEndRequest = 2, kEndNow = 3 };
  struct EndRequest {
    int32_t rank;
    int32_t code;
    std::string text;
  };

  void launch_thread();
  void run();
  void turn();
  void receive_all();
  void take_own_request();
  void serve_end();
  void end_as_rank0();
  void end_without_rank0();
  const EndRequest& chosen_request() const;
  void tell_all_to_end(int code);
  [[noreturn]] void leave(int code);
  void watch();
  const char* current_stage();
  void observe_progress(Clock::time_point now);
  Heard make_report(Clock::time_point now) const;
  void send_report(const Heard& own);
  void hear(int from, const RankReport& page);
  void judge(Clock::time_point now);
  void report_stall(const Stall& stall);

  const int rank_;
  const int size_;
  const std::unique_ptr<Wire> wire_;
  const std::shared_ptr<ProgressEngine> engine_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<EndRequest> own_requests_;                   // under mutex_
  bool stopping_ = false;                                  // under mutex_
  std::shared_ptr<const std::atomic<const char*>> stage_;  // under mutex_
  std::atomic<bool> hushed_{false};
  std::atomic<bool> hush_done_{false};
  std::atomic<bool> paused_{false};
  std::atomic<double> timeout_{0};

  // Of the thread alone.
  std::vector<EndRequest> requests_;
  std::string preface_;  // printed before the text
  Clock::time_point first_request_{};
  bool asked_rank0_ = false;
  uint64_t last_progress_ = 0;
  const char* last_stage_ = nullptr;
  bool watching_ = false;
  Clock::time_point last_change_{}, last_report_{}, last_turn_{};
  std::vector<Heard> heard_;
  std::vector<Heard> half_heard_;  ///< of which pages are missing
  std::vector<Clock::time_point> heard_at_;

  std::thread thread_;
};

}  // namespace dlrm
