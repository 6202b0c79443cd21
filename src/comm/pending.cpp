#include <utility>

#include <sched.h>

#include "dlrm/comm/communicator.h"

namespace dlrm {
namespace {

void wait_quietly(Pending& pending) {
  try {
    pending.wait();
  } catch (...) {
    // Its owner no longer wants to know; the rank that failed reports the error.
  }
}

}  // namespace

void Pending::State::relax(int64_t) { ::sched_yield(); }

Pending& Pending::operator=(Pending&& other) {
  if (this == &other) return *this;
  wait_quietly(*this);
  state_ = std::move(other.state_);
  return *this;
}

Pending::~Pending() { wait_quietly(*this); }

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
