#pragma once
#include <atomic>
#include <mutex>
#include <string>
#include <utility>

namespace dlrm::comm {

/// The first failure of an NCCL session. Thread-safe. The mutex is never held during an NCCL call,
/// so that the watchdog can always ask.
class NcclFailure {
 public:
  /// Ignores all but the first failure.
  void record(std::string text, bool is_remote) {
    const std::lock_guard lock(mutex_);
    if (occurred_) return;
    text_ = std::move(text);
    is_remote_ = is_remote;
    occurred_ = true;
  }
  bool occurred() const { return occurred_.load(); }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  /// True if NCCL only reports that another rank failed.
  bool is_remote() const { return is_remote_.load(); }

  /// The text for the watchdog. Empty at first, while the thread that made the call reports it.
  std::string text_for_watchdog() {
    constexpr int kIgnored = 2;
    const std::lock_guard lock(mutex_);
    return ++asked_ > kIgnored ? text_ : "";
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
  int asked_ = 0;  // by the watchdog
  std::atomic<bool> is_remote_{false};
  std::atomic<bool> occurred_{false};
};

}  // namespace dlrm::comm
