#include "progress.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

#include <sched.h>

namespace dlrm {
namespace {

/// How many polls a waiting rank makes without pause, and after how many more, each of which gives
/// the core away, it sleeps after each. With a yield a poll takes about half a microsecond.
struct Patience {
  int64_t busy;
  int64_t yielding;
};

constexpr int64_t kForEver = std::numeric_limits<int64_t>::max();
constexpr auto kNap = std::chrono::microseconds(40);

constexpr Patience patience_of(Waiting waiting) {
  switch (waiting) {
    case Waiting::kSpin:  // several steps of a message's handshake; naps once a wait is 10 ms long
      return {1000, 20000};
    case Waiting::kSpinForMessages:
      return {1000, kForEver};
    case Waiting::kYield:
      return {0, 2000};
    case Waiting::kThread:  // a pause of the others' copying
      return {64, 512};
  }
  return {};
}

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
  const Patience patience = patience_of(waiting_.load(std::memory_order_relaxed));
  if (polls < patience.busy) return;
  if (polls < patience.yielding) {
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

bool Call::poll() {
  const std::lock_guard lock(engine_->mutex());
  if (!done_) engine_->advance();
  if (error_) std::rethrow_exception(error_);
  return done_;
}

}  // namespace dlrm
