#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace dlrm {

/// A thread that runs tasks in the order of their post(). If a task throws, the worker calls
/// `failed` with the error, and drops all other tasks.
class Worker {
 public:
  explicit Worker(std::function<void(std::exception_ptr)> failed);
  ~Worker() { stop(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void post(std::function<void()> task);
  /// Finishes the task that runs, and drops the others. Idempotent.
  void stop();
  /// Waits until at most `most` posted tasks have not ended, or one has failed.
  void wait_for(size_t most);
  /// True if at most `most` posted tasks have not ended.
  bool has_at_most(size_t most);

 private:
  void run();

  const std::function<void(std::exception_ptr)> failed_;
  std::mutex mutex_;
  std::condition_variable posted_, ended_;
  std::deque<std::function<void()>> tasks_;  ///< the first one runs
  bool stops_ = false;
  std::thread thread_;  // declared last, so that it starts when the rest is in place
};

}  // namespace dlrm
