#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

#include <unistd.h>

#include "dlrm/core/error.h"

#include "block_file.h"

namespace dlrm {

namespace {

class ThreadQueue final : public BlockQueue {
 public:
  ThreadQueue(const File& file, int threads) : fd_(file.descriptor()) {
    try {
      for (int t = 0; t < threads; ++t) threads_.emplace_back([this] { work(); });
    } catch (const std::system_error& error) {
      // Fewer threads do too.
      if (threads_.empty()) throw run_error("cannot start a thread for an SSD: {}", error.what());
    }
  }
  ~ThreadQueue() override {
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
    }
    arrived_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void start(int id, const BlockTransfer& transfer) override {
    {
      std::lock_guard lock(mutex_);
      waiting_.emplace_back(id, transfer);
    }
    arrived_.notify_one();
  }

  void finish(size_t count, std::vector<Completion>& completions) override {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return done_.size() >= count; });
    completions.insert(completions.end(), done_.begin(), done_.end());
    done_.clear();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      arrived_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const auto [id, t] = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      const auto bytes = static_cast<size_t>(t.bytes);
      const ssize_t moved =
          t.write ? ::pwrite(fd_, t.data, bytes, t.offset) : ::pread(fd_, t.data, bytes, t.offset);
      const int64_t result = moved >= 0 ? moved : -errno;
      lock.lock();
      done_.push_back({id, result});
      ended_.notify_one();
    }
  }

  const int fd_;
  std::mutex mutex_;
  std::condition_variable arrived_, ended_;
  std::deque<std::pair<int, BlockTransfer>> waiting_;
  std::vector<Completion> done_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<BlockQueue> make_thread_queue(const File& file, int threads) {
  return std::make_unique<ThreadQueue>(file, threads);
}

}  // namespace dlrm
