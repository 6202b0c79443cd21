// How ranks wait for one another.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "comm/node.h"
#include "comm/progress.h"

namespace dlrm {
namespace {

constexpr int kCalls = 100;

/// How often this thread slept in kCalls pauses after `polls` polls that found nothing.
int64_t sleeps(Waiting waiting, int64_t polls) {
  const ProgressEngine engine(waiting);
  rusage before{}, after{};
  getrusage(RUSAGE_THREAD, &before);
  for (int i = 0; i < kCalls; ++i) engine.relax(polls);
  getrusage(RUSAGE_THREAD, &after);
  return after.ru_nvcsw - before.ru_nvcsw;
}

TEST(Waiting, ForLongSleeps) {
  for (const Waiting waiting : {Waiting::kSpin, Waiting::kYield, Waiting::kThread}) {
    EXPECT_GE(sleeps(waiting, 30000), kCalls / 2) << static_cast<int>(waiting);
  }
}

TEST(Waiting, WithACoreOfItsOwnDoesNotSleepWithinAStep) {
  EXPECT_LT(sleeps(Waiting::kSpin, 3000), kCalls / 2);
}

TEST(Waiting, ForMessagesOfOtherMachinesNeverSleeps) {
  EXPECT_LT(sleeps(Waiting::kSpinForMessages, 30000), kCalls / 2);
}

TEST(Waiting, AmongMoreThreadsThanCoresSleepsSooner) {
  EXPECT_GE(sleeps(Waiting::kYield, 3000), kCalls / 2);
}

TEST(Waiting, IsForACrowdWhereThreadsOfAllRanksAreMoreThanTheirCpus) {
  Node node;
  node.size = 2;
  node.cpus = 4;
  EXPECT_FALSE(node.crowded(1));
  EXPECT_FALSE(node.crowded(2));
  EXPECT_TRUE(node.crowded(3));
  node.cpus = 1.5;  // as a control group may grant of 64 cores
  EXPECT_TRUE(node.crowded(1));
}

}  // namespace
}  // namespace dlrm
