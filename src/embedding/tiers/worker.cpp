#include "worker.h"

#include "dlrm/core/background_thread.h"

namespace dlrm {

Worker::Worker(std::function<void(std::exception_ptr)> failed)
    : failed_(std::move(failed)), thread_(background_thread([this] { run(); })) {}

void Worker::stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  posted_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Worker::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (stops_) return;
    tasks_.push_back(std::move(task));
  }
  posted_.notify_one();
}

void Worker::wait_for(size_t most) {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return stops_ || tasks_.size() <= most; });
}

bool Worker::has_at_most(size_t most) {
  const std::lock_guard lock(mutex_);
  return tasks_.size() <= most;
}

void Worker::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    posted_.wait(lock, [&] { return stops_ || !tasks_.empty(); });
    if (stops_) return;
    const std::function<void()>& task = tasks_.front();  // a deque keeps it in place
    lock.unlock();
    std::exception_ptr error;
    try {
      task();
    } catch (...) {
      error = std::current_exception();
    }
    if (error) failed_(error);
    lock.lock();
    tasks_.pop_front();
    if (error) {
      stops_ = true;
      tasks_.clear();
    }
    ended_.notify_all();
  }
}

}  // namespace dlrm
