#pragma once
#include <thread>
#include <utility>

#include <pthread.h>
#include <signal.h>

namespace dlrm {

/// Starts a thread that blocks the signals by which a run is stopped, so that the main thread
/// handles them. Throws std::system_error if the system starts none.
template <class Run>
std::thread background_thread(Run run) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&blocked, signal);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  struct Restore {
    const sigset_t& mask;
    ~Restore() { pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
  } restore{before};
  return std::thread(std::move(run));
}

}  // namespace dlrm
