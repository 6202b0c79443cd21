#pragma once
#include <thread>
#include <utility>

#include <pthread.h>
#include <signal.h>

#include "dlrm/core/cpus.h"

namespace dlrm {

/// Blocks the signals by which a run is stopped. Threads that are started during its lifetime
/// inherit that, so that the main thread handles the signals.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t stops;
    sigemptyset(&stops);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&stops, signal);
    pthread_sigmask(SIG_BLOCK, &stops, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

/// Starts a thread in which these signals are blocked, and which may run on all of the process's
/// CPUs. Throws std::system_error if the system starts none.
template <class Run>
std::thread background_thread(Run run) {
  const SignalsBlocked blocked;
  return std::thread([run = std::move(run)]() mutable {
    leave_openmp_place();
    run();
  });
}

}  // namespace dlrm
