#include "progress.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <new>
#include <thread>

#include <sched.h>

namespace dlrm {
namespace {

constexpr int64_t kBusyPolls = 64;        // threads: a pause of the others' copying
constexpr int64_t kSpinningPolls = 1000;  // processes: several steps of a message's handshake
constexpr int64_t kYieldingPolls = 512;
constexpr auto kNap = std::chrono::microseconds(40);

}  // namespace

void ProgressEngine::add(Call& call) {
  const std::lock_guard lock(mutex_);
  calls_.push_back(&call);
}

void ProgressEngine::remove(Call& call) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find(calls_.begin(), calls_.end(), &call);
  if (found == calls_.end()) return;
  if (advancing_) {
    *found = nullptr;  // advance() is walking over the list
  } else {
    calls_.erase(found);
  }
}

void ProgressEngine::advance() {
  const std::lock_guard lock(mutex_);
  if (advancing_) return;
  advancing_ = true;
  // From the back: the exchanges of a composed call stand behind it and are stepped first.
  for (size_t i = calls_.size(); i-- > 0;) {
    Call* call = calls_[i];
    if (!call) continue;
    try {
      call->done_ = call->step();
    } catch (...) {
      call->error_ = std::current_exception();
      call->done_ = true;
    }
    if (!call->done_) continue;
    calls_[i] = nullptr;
    count_progress();
  }
  std::erase(calls_, nullptr);
  advancing_ = false;
}

void ProgressEngine::relax(int64_t polls) const {
  if (polls < kSpinningPolls && waiting_ == Waiting::kSpin) return;
  if (polls < kBusyPolls && waiting_ == Waiting::kThread) return;
  if (polls < kYieldingPolls || waiting_ != Waiting::kThread) {
    ::sched_yield();
  } else {
    std::this_thread::sleep_for(kNap);
  }
}

void ProgressEngine::add(Health& health) {
  const std::lock_guard lock(health_mutex_);
  health_.push_back(&health);
}

void ProgressEngine::remove(Health& health) {
  const std::lock_guard lock(health_mutex_);
  std::erase(health_, &health);
}

std::string ProgressEngine::failure() const {
  const std::lock_guard lock(health_mutex_);
  for (Health* health : health_) {
    std::string failure = health->failure();
    if (!failure.empty()) return failure;
  }
  return "";
}

std::unique_ptr<Activity> ProgressEngine::make_activity() {
  const std::lock_guard lock(activities_mutex_);
  auto activity = std::make_unique<Activity>(next_activity_++);
  activities_.push_back(activity.get());
  return activity;
}

void ProgressEngine::forget(const Activity& activity) {
  const std::lock_guard lock(activities_mutex_);
  std::erase(activities_, &activity);
}

namespace {

/// Before each call.
struct alignas(std::max_align_t) Header {
  std::shared_ptr<CallMemory> memory;  ///< that the block goes back to
  size_t bytes = 0;                    ///< with this header
};

}  // namespace

void* Call::operator new(size_t bytes, const std::shared_ptr<CallMemory>& memory) {
  bytes += sizeof(Header);
  void* block = memory ? memory->take(bytes) : ::operator new(bytes);
  return new (block) Header{memory, bytes} + 1;
}

void Call::operator delete(void* call) noexcept {
  Header* header = static_cast<Header*>(call) - 1;
  const std::shared_ptr<CallMemory> memory = std::move(header->memory);
  const size_t bytes = header->bytes;
  header->~Header();
  if (memory) {
    memory->give_back(header, bytes);
  } else {
    ::operator delete(header);
  }
}

bool Call::poll() {
  const std::lock_guard lock(engine_->mutex());
  if (!done_) engine_->advance();
  if (error_) std::rethrow_exception(error_);
  return done_;
}

}  // namespace dlrm
