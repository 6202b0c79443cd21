#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace dlrm::comm {

/// Ends the process with 3 if one of its threads waits within MPI for too long. Its own thread
/// makes no MPI call, so it runs while all others hang there. The watchdog cannot do this: it needs
/// MPI, which must have started, and hangs if MPI does. Time in which the process was stopped does
/// not count. Thread-safe.
class WaitLimit {
 public:
  enum class Who { kMainThread, kControlThread };

  /// @param rank  the lowest rank that is not stopped ends first, and prints why
  explicit WaitLimit(int rank);
  ~WaitLimit();
  WaitLimit(const WaitLimit&) = delete;
  WaitLimit& operator=(const WaitLimit&) = delete;

  /// Allows a wait of `seconds` from now on. `what` completes "waited for ..." and is a literal.
  /// Replaces the limit that `who` has begun before.
  void begin(Who who, const char* what, double seconds);
  void end(Who who);
  /// After that time beyond its limit rank `rank` ends: all lower ranks that are not stopped had
  /// the time to end first.
  static std::chrono::nanoseconds turn_of(int rank, const std::map<int, std::string>& stopped);

 private:
  struct Limit {
    std::atomic<int64_t> deadline{0};  ///< nanoseconds of the steady clock; 0: none
    std::atomic<const char*> what{""};
    std::atomic<double> seconds{0};
  };

  void run();
  void end_in_turn(const Limit& limit, int64_t late) const;

  const int rank_;
  std::array<Limit, 2> limits_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;  // under mutex_
  std::thread thread_;
};

}  // namespace dlrm::comm
