#include "wait_policy.h"

#include <chrono>
#include <limits>
#include <thread>

#include <sched.h>

namespace dlrm::comm {
namespace {

/// The polls without pause, and the further polls after each of which the core is yielded. After
/// those, each poll is followed by a sleep. A poll with a yield takes about half a microsecond.
struct PollLimits {
  int64_t spins;
  int64_t yields;
};

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
constexpr auto kSleep = std::chrono::microseconds(40);

constexpr PollLimits limits_of(WaitPolicy policy) {
  switch (policy) {
    case WaitPolicy::kSpin:  // several steps of a handshake; sleeps once a wait takes 10 ms
      return {1000, 20000};
    case WaitPolicy::kSpinForever:
      return {1000, kUnlimited};
    case WaitPolicy::kYield:
      return {0, 2000};
    case WaitPolicy::kThreads:  // the time in which other ranks copy
      return {64, 512};
  }
  return {};
}

}  // namespace

void back_off(WaitPolicy policy, int64_t polls) {
  const PollLimits limits = limits_of(policy);
  if (polls < limits.spins) return;
  if (polls < limits.yields) {
    ::sched_yield();
  } else {
    std::this_thread::sleep_for(kSleep);
  }
}

}  // namespace dlrm::comm
