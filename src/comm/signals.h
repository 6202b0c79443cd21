#pragma once
#include <csignal>

namespace dlrm::comm {

/// Blocks the signals that ask a run to stop. Threads started during its lifetime inherit that, so
/// that the main thread receives the signals.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t stops;
    sigemptyset(&stops);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2}) sigaddset(&stops, signal);
    pthread_sigmask(SIG_BLOCK, &stops, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace dlrm::comm
