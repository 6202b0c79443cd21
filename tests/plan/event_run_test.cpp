// Tasks in simulated time, on graphs whose times are known.
#include "plan/simulate/event_run.h"

#include <gtest/gtest.h>

namespace dlrm::plan_test {
namespace {

EventRun::Work lasting(double seconds) { return {seconds, {}}; }
EventRun::Work using_one(int resource, double seconds, double latency = 0) {
  EventRun::Work work;
  work.latency = latency;
  work.uses[0] = {resource, seconds};
  return work;
}

TEST(EventRun, LanesRunAtTheSameTimeAndInOrder) {
  EventRun run;
  const int main = run.add_lane(), side = run.add_lane();
  const int a = run.add(main, lasting(2), {});
  const int b = run.add(side, lasting(3), {});
  const int c = run.add(main, lasting(1), {});
  const int after[] = {b};
  const int d = run.add(main, lasting(1), after);
  run.run();
  EXPECT_EQ(run.begin(a), 0);
  EXPECT_EQ(run.begin(b), 0);
  EXPECT_EQ(run.begin(c), 2);
  EXPECT_EQ(run.begin(d), 3);
  EXPECT_EQ(run.end(d), 4);
  EXPECT_EQ(run.cause(a), -1);
  EXPECT_EQ(run.cause(c), a);
}

TEST(EventRun, UsersOfALinkShareIt) {
  EventRun run;
  const int link = run.add_resource();
  const int first = run.add(run.add_lane(), using_one(link, 1), {});
  const int second = run.add(run.add_lane(), using_one(link, 3), {});
  const int late = run.add(run.add_lane(), using_one(link, 1, 3), {});
  run.run();
  EXPECT_DOUBLE_EQ(run.end(first), 2);
  // Alone from 2 to 3, when 1.5 of 3 seconds are left. Then both have half until `late` ends.
  EXPECT_DOUBLE_EQ(run.end(late), 5);
  EXPECT_DOUBLE_EQ(run.end(second), 5);
}

TEST(EventRun, UsersSlowDownOnlyIfThereIsNotEnough) {
  EventRun run;
  const int processors = run.add_resource(4);
  const auto use = [&](double seconds, double amount) {
    EventRun::Work work;
    work.uses[0] = {processors, seconds, amount};
    return run.add(run.add_lane(), work, {});
  };
  const int small = use(2, 1), large = use(3, 3);
  const int late = run.add(run.add_lane(), using_one(processors, 1, 1), {});
  run.run();
  // From 1 on, five are used of four.
  EXPECT_DOUBLE_EQ(run.end(small), 2.25);
  EXPECT_DOUBLE_EQ(run.end(late), 2.25);
  EXPECT_DOUBLE_EQ(run.end(large), 3.25);
}

TEST(EventRun, ATaskThatUsesMoreThanThereIsIsSlow) {
  EventRun run;
  EventRun::Work work;
  work.uses[0] = {run.add_resource(2), 1, 6};
  const int task = run.add(run.add_lane(), work, {});
  run.run();
  EXPECT_DOUBLE_EQ(run.end(task), 3);
}

TEST(EventRun, ATaskEndsWithItsLongestUse) {
  EventRun run;
  EventRun::Work work;
  work.latency = 1;
  work.uses = {{{run.add_resource(), 2}, {run.add_resource(), 5}}};
  const int lane = run.add_lane();
  const int task = run.add(lane, work, {});
  const int next = run.add(lane, lasting(0), {});
  run.run();
  EXPECT_DOUBLE_EQ(run.end(task), 6);
  EXPECT_DOUBLE_EQ(run.end(next), 6);
}

TEST(EventRun, ABarrierWaitsForTheSlowestRank) {
  EventRun run;
  std::vector<int> ranks;
  for (const double seconds : {1, 5, 2}) {
    ranks.push_back(run.add(run.add_lane(), lasting(seconds), {}));
  }
  const int barrier = run.add(run.add_lane(), lasting(0.5), ranks);
  run.run();
  EXPECT_EQ(run.begin(barrier), 5);
  EXPECT_EQ(run.end(barrier), 5.5);
  EXPECT_EQ(run.cause(barrier), ranks[1]);
}

}  // namespace
}  // namespace dlrm::plan_test
