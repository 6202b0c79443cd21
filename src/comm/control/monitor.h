#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/calls/call_log.h"

namespace dlrm::comm {

/// A part that can fail by itself while its rank waits for something else.
class FailureSource {
 public:
  virtual ~FailureSource() = default;
  /// Returns one line about the failure; empty: none. Does not block. Any thread may call it.
  virtual std::string failure() = 0;
};

/// One rank's state as its watchdog thread sees it. Thread-safe.
class Monitor {
 public:
  /// Rises with every call entered or completed.
  uint64_t progress() const { return progress_.load(std::memory_order_relaxed); }
  void count_progress() { progress_.fetch_add(1, std::memory_order_relaxed); }

  void add(FailureSource& source);
  void remove(FailureSource& source);
  /// The first failure of any source; empty: none.
  std::string failure() const;

  /// Returns the log of a new communicator. Unregister it before it is destroyed.
  std::unique_ptr<CallLog> make_call_log();
  void remove(const CallLog& log);
  /// Calls visit(log) for each communicator of this rank.
  template <class Visit>
  void each_call_log(Visit visit) const {
    const std::lock_guard lock(logs_mutex_);
    for (const CallLog* log : logs_) visit(*log);
  }

 private:
  std::atomic<uint64_t> progress_{0};
  mutable std::mutex logs_mutex_;
  std::vector<const CallLog*> logs_;
  int next_id_ = 0;
  mutable std::mutex sources_mutex_;
  std::vector<FailureSource*> sources_;
};

}  // namespace dlrm::comm
