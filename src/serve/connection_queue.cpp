#include "connection_queue.h"

#include "dlrm/core/background_thread.h"

namespace dlrm::serve {

ConnectionQueue::ConnectionQueue(int most, Counters& counters)
    : most_(static_cast<size_t>(most)), counters_(counters) {}

void ConnectionQueue::enqueue(std::function<void()> connection) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return open_ < most_; });
  ++open_;
  waiting_.push_back(std::move(connection));
  if (threads_.size() < open_) threads_.push_back(background_thread([this] { run(); }));
  changed_.notify_all();
}

void ConnectionQueue::shutdown() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ConnectionQueue::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const std::function<void()> connection = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    counters_.add_connections(1);
    connection();
    counters_.add_connections(-1);
    lock.lock();
    --open_;
    changed_.notify_all();
  }
}

}  // namespace dlrm::serve
