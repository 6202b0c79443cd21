#pragma once
#include <cstdint>

namespace dlrm::comm {

/// How a waiting rank spends the time between two polls.
enum class WaitPolicy {
  kSpin,         ///< the rank has its own core: polls without pause, sleeps if the wait is long
  kSpinForever,  ///< as kSpin, but never sleeps: only polls move messages between nodes
  kYield,        ///< more threads than cores: yields after each poll, and sleeps soon
  kThreads,      ///< ranks are threads that copy for themselves: sleeps soon
};

/// Pauses the calling thread as `policy` says, after `polls` polls without success.
void back_off(WaitPolicy policy, int64_t polls);

}  // namespace dlrm::comm
