#include <chrono>
#include <exception>
#include <utility>

#include <sched.h>

#include "dlrm/comm/communicator.h"

namespace dlrm {
namespace {

constexpr auto kUnwindTimeout = std::chrono::seconds(2);

}  // namespace

void Pending::State::back_off(int64_t) { ::sched_yield(); }

Pending& Pending::operator=(Pending&& other) {
  if (this == &other) return *this;
  end_quietly();
  state_ = std::move(other.state_);
  return *this;
}

Pending::~Pending() { end_quietly(); }

void Pending::end_quietly() noexcept {
  if (!state_) return;
  try {
    const auto begin = std::chrono::steady_clock::now();
    for (int64_t polls = 0; !poll(); ++polls) {
      const bool failed = std::uncaught_exceptions() > 0;
      if (failed &&
          (state_->abandoned() || std::chrono::steady_clock::now() - begin > kUnwindTimeout)) {
        state_->abandon();
        return;
      }
      state_->back_off(polls);
    }
  } catch (...) {
    // The rank that failed reports the error.
  }
}

bool Pending::poll() {
  if (!state_) return true;
  try {
    if (!state_->poll()) return false;
  } catch (...) {
    state_.reset();
    throw;
  }
  state_.reset();
  return true;
}

// The watchdog limits the wait: it counts calls entered and completed.
void Pending::wait() {
  for (int64_t polls = 0; !poll(); ++polls) state_->back_off(polls);
}

bool Pending::State::enqueue_wait(Stream&) { return false; }

void Pending::wait(Stream& stream) {
  if (state_ && state_->enqueue_wait(stream)) {
    state_.reset();
    return;
  }
  wait();
}

PeerLost::PeerLost(ExitCode code, int rank)
    : Error(code, fmt::format("rank {} failed or vanished", rank)), rank_(rank) {}

}  // namespace dlrm
