#pragma once
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace dlrm {

/// Threads that run lists of independent tasks.
class TaskTeam {
 public:
  /// `threads` includes the caller's thread.
  /// Throws usage_error if the system starts fewer.
  explicit TaskTeam(int threads);
  ~TaskTeam();
  TaskTeam(const TaskTeam&) = delete;
  TaskTeam& operator=(const TaskTeam&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }
  /// Starts the tasks in order and returns when all are done. If several throw, rethrows the error
  /// of the first in the list.
  void run(const std::vector<std::function<void()>>& tasks);

 private:
  void stop();
  void work();
  /// Runs tasks until none is left. The caller holds the lock before and after.
  void take_tasks(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable started_, finished_;
  const std::vector<std::function<void()>>* tasks_ = nullptr;
  std::vector<std::exception_ptr> errors_;
  size_t next_ = 0;
  size_t unfinished_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace dlrm
