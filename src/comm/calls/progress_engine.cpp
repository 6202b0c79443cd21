#include "progress_engine.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "call.h"

namespace dlrm::comm {

void ProgressEngine::add(Call& call) {
  const std::lock_guard lock(mutex_);
  calls_.push_back(&call);
}

void ProgressEngine::remove(Call& call) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find(calls_.begin(), calls_.end(), &call);
  if (found == calls_.end()) return;
  if (advancing_) {
    *found = nullptr;  // advance() iterates over the list
  } else {
    calls_.erase(found);
  }
}

void ProgressEngine::advance() {
  const std::lock_guard lock(mutex_);
  if (advancing_) return;
  advancing_ = true;
  // In reverse: the exchanges of a composed call were added after it and are stepped first.
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
    monitor_.count_progress();
  }
  std::erase(calls_, nullptr);
  advancing_ = false;
}

void ProgressEngine::set_threads(int threads) {
  const std::lock_guard lock(mutex_);
  threads_ = threads;
  leader_ = std::this_thread::get_id();
}

int ProgressEngine::team() const {
  return std::this_thread::get_id() == leader_ && !omp_in_parallel() ? threads_ : 1;
}

void ProgressEngine::copy(void* to, const void* from, int64_t bytes) const {
  divide(bytes, 2, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                static_cast<size_t>(end - begin));
  });
}

void ProgressEngine::back_off(int64_t polls) const {
  comm::back_off(wait_policy_.load(std::memory_order_relaxed), polls);
}

}  // namespace dlrm::comm
