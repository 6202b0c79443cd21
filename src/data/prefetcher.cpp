#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "dlrm/core/background_thread.h"
#include "dlrm/core/error.h"
#include "dlrm/data/batch_source.h"

namespace dlrm {

class Prefetcher::Impl {
 public:
  virtual ~Impl() = default;
  virtual const Batch* next() = 0;
  virtual double wait_seconds() const = 0;
};

namespace {

/// The caller's thread loads each batch when it is asked for.
class OnDemand final : public Prefetcher::Impl {
 public:
  OnDemand(const BatchSource& source, int64_t first, int64_t last)
      : source_(source), next_(first), last_(last) {}

  const Batch* next() override {
    if (next_ >= last_) return nullptr;
    const auto begin = std::chrono::steady_clock::now();
    source_.will_need(next_);
    source_.load(next_, batch_);  // after an error, again
    ++next_;
    const std::chrono::duration<double> loaded = std::chrono::steady_clock::now() - begin;
    waited_ += loaded.count();
    return &batch_;
  }
  double wait_seconds() const override { return waited_; }

 private:
  const BatchSource& source_;
  int64_t next_;
  const int64_t last_;
  Batch batch_;
  double waited_ = 0;
};

/// Batch t is in slot (t - first) mod slots. A worker starts the next batch as soon as its slot is
/// free. next() returns the slots in order and frees the previous slot.
class Ahead final : public Prefetcher::Impl {
 public:
  Ahead(const BatchSource& source, int64_t first, int64_t last, int workers, int depth)
      : source_(source), first_(first), last_(last), depth_(std::max(depth, 1)) {
    // One slot more than the depth, for the batch that the caller is reading.
    slots_.resize(static_cast<size_t>(depth_) + 1);
    begun_ = handed_ = first;
    start(workers);
  }

  ~Ahead() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    work_.notify_all();
    // A worker may still read a batch. The watchdog limits that too.
    for (std::thread& thread : threads_) thread.join();
  }

  const Batch* next() override {
    std::unique_lock lock(mutex_);
    if (handed_ >= last_) return nullptr;
    Slot& slot = slot_of(handed_);
    wait_for(lock, slot);
    if (slot.error) std::rethrow_exception(slot.error);
    ++handed_;
    // Wakes workers only if several batches can be started, because waking a thread may cost more
    // than loading a small batch. Up to that point, the batches ahead are being loaded or are
    // ready.
    const bool wake = handed_ + depth_ - begun_ >= std::max<int64_t>(1, depth_ / 2);
    lock.unlock();
    if (wake) work_.notify_one();
    return &slot.batch;
  }

  double wait_seconds() const override {
    const std::lock_guard lock(mutex_);
    return waited_;
  }

 private:
  struct Slot {
    Batch batch;
    int64_t ready = -1;  // number of the batch in this slot
    std::exception_ptr error;
  };

  Slot& slot_of(int64_t t) {
    return slots_[static_cast<size_t>((t - first_) % static_cast<int64_t>(slots_.size()))];
  }

  void start(int workers) {
    try {
      for (int w = 0; w < workers; ++w) threads_.push_back(background_thread([this] { run(); }));
    } catch (const std::system_error&) {
      // Fewer workers load the same batches.
    }
    if (threads_.empty()) throw run_error("this system starts no thread that reads batches");
  }

  void wait_for(std::unique_lock<std::mutex>& lock, const Slot& slot) {
    if (slot.ready == handed_) return;
    const auto begin = std::chrono::steady_clock::now();
    // The watchdog limits the wait: the stage does not change meanwhile.
    ready_.wait(lock, [&] { return slot.ready == handed_; });
    waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      // The caller reads handed_ - 1. The depth_ batches after it may be started.
      work_.wait(lock, [&] { return stop_ || begun_ >= last_ || begun_ < handed_ + depth_; });
      if (stop_ || begun_ >= last_) return;
      const int64_t t = begun_++;
      Slot& slot = slot_of(t);
      lock.unlock();
      std::exception_ptr error = load(t, slot.batch);
      lock.lock();
      slot.error = error;
      slot.ready = t;
      ready_.notify_one();
    }
  }

  std::exception_ptr load(int64_t t, Batch& batch) const {
    try {
      source_.will_need(t);
      source_.load(t, batch);
      return nullptr;
    } catch (...) {
      return std::current_exception();
    }
  }

  const BatchSource& source_;
  const int64_t first_, last_, depth_;
  mutable std::mutex mutex_;
  std::condition_variable work_, ready_;
  std::vector<Slot> slots_;
  int64_t begun_, handed_;
  double waited_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

Prefetcher::Prefetcher(const BatchSource& source, int64_t first, int64_t last, int workers,
                       int depth) {
  if (workers <= 0) {
    impl_ = std::make_unique<OnDemand>(source, first, last);
  } else {
    impl_ = std::make_unique<Ahead>(source, first, last, workers, depth);
  }
}
Prefetcher::~Prefetcher() = default;
const Batch* Prefetcher::next() { return impl_->next(); }
double Prefetcher::wait_seconds() const { return impl_->wait_seconds(); }

}  // namespace dlrm
