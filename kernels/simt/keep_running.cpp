#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <thread>

#include <pthread.h>

#include "machine.h"
#include "simt/simt.h"

namespace simt {

struct KeepRunning::State {
  std::atomic<bool> stop{false};
  std::thread thread;
};

namespace {

constexpr auto kPause = std::chrono::milliseconds(1);

void run_what_can() {
  guarded("the thread that keeps a GPU running", [](Machine& machine) {
    machine.run_all();
    return 0;
  });
}

}  // namespace

KeepRunning::KeepRunning() : state_(std::make_unique<State>()) {
  sigset_t blocked, before;  // signals are for the program's own threads
  sigemptyset(&blocked);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&blocked, signal);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  state_->thread = std::thread([state = state_.get()] {
    while (!state->stop) {
      run_what_can();
      std::this_thread::sleep_for(kPause);
    }
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

KeepRunning::~KeepRunning() {
  state_->stop = true;
  state_->thread.join();
}

}  // namespace simt
