#include "task_team.h"

#include <system_error>

#include "thread_option.h"

namespace dlrm {

TaskTeam::TaskTeam(int threads) {
  try {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    stop();
    throw too_many_threads(threads);
  }
}

TaskTeam::~TaskTeam() { stop(); }

void TaskTeam::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  started_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void TaskTeam::run(const std::vector<std::function<void()>>& tasks) {
  std::unique_lock lock(mutex_);
  tasks_ = &tasks;
  errors_.assign(tasks.size(), nullptr);
  next_ = 0;
  unfinished_ = tasks.size();
  started_.notify_all();
  take_tasks(lock);
  finished_.wait(lock, [this] { return unfinished_ == 0; });
  tasks_ = nullptr;
  for (const std::exception_ptr& error : errors_) {
    if (error) std::rethrow_exception(error);
  }
}

void TaskTeam::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    started_.wait(lock, [this] { return stopping_ || (tasks_ && next_ < tasks_->size()); });
    if (stopping_) return;
    take_tasks(lock);
  }
}

void TaskTeam::take_tasks(std::unique_lock<std::mutex>& lock) {
  while (tasks_ && next_ < tasks_->size()) {
    const size_t task = next_++;
    const std::vector<std::function<void()>>& tasks = *tasks_;
    lock.unlock();
    std::exception_ptr error;
    try {
      tasks[task]();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    errors_[task] = error;
    if (--unfinished_ == 0) finished_.notify_all();
  }
}

}  // namespace dlrm
