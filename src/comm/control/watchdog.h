#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dlrm/core/trace.h"

#include "control_channel.h"
#include "monitor.h"
#include "stall.h"

namespace dlrm::comm {

/// Why the watchdog ends the job.
struct Alarm {
  std::string table;             ///< state of all ranks; may be empty
  std::string error;             ///< one line
  bool rank0_is_silent = false;  ///< rank 0 cannot end the job
};

/// Detects ranks that make no progress or no longer respond. Each rank reports to rank 0, which
/// judges, and to rank 1, which takes over if rank 0 is silent. Both tell all ranks that they are
/// alive, so that the others notice if both are silent. The control thread calls receive(), hear()
/// and check(); any thread may call the rest.
class Watchdog {
 public:
  /// @param channel  null: a single rank
  Watchdog(int rank, int size, ControlChannel* channel, Monitor& monitor);

  void start(double timeout_seconds, const Trace& trace);
  void pause(bool paused) { paused_.store(paused); }
  void stop_reports() { reports_stopped_.store(true); }
  bool reports_stopped() const { return reports_stopped_.load(); }
  double timeout() const { return timeout_.load(); }  ///< seconds; 0: not started

  void receive(int from, const RankReport& page);
  /// Rank `from` is alive.
  void hear(int from);
  /// Observes progress, sends a report when one is due, and judges the reports of all ranks.
  std::optional<Alarm> check();

 private:
  using Clock = std::chrono::steady_clock;

  Clock::duration interval() const;
  const char* current_stage();
  void skip_lost_time(Clock::time_point now);
  void observe_progress(Clock::time_point now);
  PeerReport make_report(Clock::time_point now) const;
  void send(const PeerReport& own);
  std::optional<Alarm> judge(Clock::time_point now) const;
  std::optional<Alarm> judge_judges(Clock::time_point now) const;

  /// This rank's last change of progress.
  struct Progress {
    uint64_t count = 0;
    const char* stage = nullptr;
    Clock::time_point changed{};
  };
  /// What this rank knows about a rank.
  struct Peer {
    PeerReport last;
    PeerReport partial;  ///< some pages are missing
    Clock::time_point received{};
  };
  /// When this rank last looked, last reported, and how often in a row it found a reason to end.
  struct Looks {
    Clock::time_point check{}, report{};
    int alarms = 0;
  };

  const int rank_;
  const int size_;
  ControlChannel* const channel_;
  Monitor& monitor_;

  std::mutex mutex_;
  std::shared_ptr<const std::atomic<const char*>> stage_;  // under mutex_
  std::atomic<double> timeout_{0};                         // 0: not started
  std::atomic<bool> paused_{false};
  std::atomic<bool> reports_stopped_{false};

  // Of the control thread alone.
  Progress progress_;
  Looks looks_;
  std::vector<Peer> peers_;
};

}  // namespace dlrm::comm
