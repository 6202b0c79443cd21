#include "comm/calls/wait_policy.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "comm/world/local_ranks.h"

namespace dlrm::comm {
namespace {

constexpr int kCalls = 100;

/// Returns how often this thread sleeps in kCalls pauses after `polls` polls without success.
int64_t sleeps(WaitPolicy policy, int64_t polls) {
  rusage before{}, after{};
  getrusage(RUSAGE_THREAD, &before);
  for (int i = 0; i < kCalls; ++i) back_off(policy, polls);
  getrusage(RUSAGE_THREAD, &after);
  return after.ru_nvcsw - before.ru_nvcsw;
}

TEST(WaitPolicy, LongWaitsSleep) {
  for (const WaitPolicy policy : {WaitPolicy::kSpin, WaitPolicy::kYield, WaitPolicy::kThreads}) {
    EXPECT_GE(sleeps(policy, 30000), kCalls / 2) << static_cast<int>(policy);
  }
}

TEST(WaitPolicy, SpinDoesNotSleepWithinAStep) {
  EXPECT_LT(sleeps(WaitPolicy::kSpin, 3000), kCalls / 2);
}

TEST(WaitPolicy, SpinForeverNeverSleeps) {
  EXPECT_LT(sleeps(WaitPolicy::kSpinForever, 30000), kCalls / 2);
}

TEST(WaitPolicy, YieldSleepsSoonerThanSpin) {
  EXPECT_GE(sleeps(WaitPolicy::kYield, 3000), kCalls / 2);
}

TEST(LocalRanks, MoreThreadsThanCpusAreOversubscribed) {
  LocalRanks ranks;
  ranks.size = 2;
  ranks.cpus = 4;
  EXPECT_FALSE(ranks.oversubscribed(1));
  EXPECT_FALSE(ranks.oversubscribed(2));
  EXPECT_TRUE(ranks.oversubscribed(3));
  ranks.cpus = 1.5;  // a control group may grant this much of 64 cores
  EXPECT_TRUE(ranks.oversubscribed(1));
}

}  // namespace
}  // namespace dlrm::comm
