#include <chrono>
#include <exception>
#include <utility>

#include <sched.h>

#include "dlrm/comm/communicator.h"

namespace dlrm {
namespace {

constexpr auto kPatience = std::chrono::seconds(2);  // of a rank that failed, for its peers

}  // namespace

void Pending::State::relax(int64_t) { ::sched_yield(); }

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
      if (failed && (state_->abandoned() || std::chrono::steady_clock::now() - begin > kPatience)) {
        state_->abandon();
        return;
      }
      state_->relax(polls);
    }
  } catch (...) {
    // Its owner no longer wants to know; the rank that failed reports the error.
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

void Pending::wait() {
  for (int64_t polls = 0; !poll(); ++polls) state_->relax(polls);
}

bool Pending::State::order(Stream&) { return false; }

void Pending::wait(Stream& stream) {
  if (state_ && state_->order(stream)) {
    state_.reset();
    return;
  }
  wait();
}

PeerLost::PeerLost(ExitCode code, int rank)
    : Error(code, fmt::format("rank {} failed or vanished", rank)), rank_(rank) {}

}  // namespace dlrm
