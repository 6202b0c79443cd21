#include "dlrm/train/stop_signal.h"

#include <array>
#include <atomic>
#include <csignal>
#include <mutex>

namespace dlrm {

namespace {

// A signal handler receives no argument from this program, so it sets a global variable.
constexpr std::array<int, 3> kSignals = {SIGUSR1, SIGTERM, SIGINT};
std::atomic<bool> stop_requested{false};
std::atomic<int> interrupts{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

std::mutex mutex;
int alive = 0;
std::array<struct sigaction, kSignals.size()> earlier;

void on_signal(int signal) {
  stop_requested.store(true, std::memory_order_relaxed);
  if (signal != SIGINT || interrupts.fetch_add(1, std::memory_order_relaxed) == 0) return;
  std::signal(SIGINT, SIG_DFL);
  std::raise(SIGINT);
}

}  // namespace

StopSignal::StopSignal() {
  const std::lock_guard lock(mutex);
  if (alive++ > 0) return;
  stop_requested.store(false);
  interrupts.store(0);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &earlier[i]);
}

StopSignal::~StopSignal() {
  const std::lock_guard lock(mutex);
  if (--alive > 0) return;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    // By default SIGUSR1 ends a process. A request that comes after the run must not.
    if (kSignals[i] == SIGUSR1 && earlier[i].sa_handler == SIG_DFL) earlier[i].sa_handler = SIG_IGN;
    sigaction(kSignals[i], &earlier[i], nullptr);
  }
}

bool StopSignal::requested() const { return stop_requested.load(std::memory_order_relaxed); }

}  // namespace dlrm
