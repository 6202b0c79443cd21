// Tasks in simulated time, on graphs whose times are known.
#include "plan/simulate/event_run.h"

#include <algorithm>
#include <random>

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

/// Random tasks, with a second implementation that looks at all tasks at every event.
struct Slow {
  std::vector<EventRun::Work> works;
  std::vector<std::vector<int>> before;
  std::vector<double> ends;

  void run(const std::vector<double>& capacities) {
    const size_t n = works.size();
    ends.assign(n, -1);
    std::vector<double> latency(n);
    for (size_t i = 0; i < n; ++i) latency[i] = works[i].latency;
    double now = 0;
    while (std::count(ends.begin(), ends.end(), -1) > 0) {
      std::vector<size_t> active;
      for (size_t i = 0; i < n; ++i) {
        const bool ready = std::all_of(before[i].begin(), before[i].end(),
                                       [&](int b) { return ends[static_cast<size_t>(b)] >= 0; });
        if (ends[i] < 0 && ready) active.push_back(i);
      }
      bool ended = false;
      for (const size_t i : active) {
        const auto left = [](double seconds) { return seconds > 1e-12; };
        if (left(latency[i]) || left(works[i].uses[0].seconds) || left(works[i].uses[1].seconds)) {
          continue;
        }
        ends[i] = now;
        ended = true;
      }
      if (ended) continue;
      std::vector<double> used(capacities.size());
      const auto slower = [&](int resource) {
        const auto r = static_cast<size_t>(resource);
        return std::max(used[r] / capacities[r], 1.0);
      };
      const auto uses = [&](size_t i) {
        std::vector<EventRun::Use*> all;
        for (EventRun::Use& use : works[i].uses) {
          if (latency[i] <= 1e-12 && use.seconds > 1e-12) all.push_back(&use);
        }
        return all;
      };
      for (const size_t i : active) {
        for (const EventRun::Use* use : uses(i))
          used[static_cast<size_t>(use->resource)] += use->amount;
      }
      double step = 1e9;
      for (const size_t i : active) {
        if (latency[i] > 1e-12) step = std::min(step, latency[i]);
        for (const EventRun::Use* use : uses(i)) {
          step = std::min(step, use->seconds * slower(use->resource));
        }
      }
      for (const size_t i : active) {
        const std::vector<EventRun::Use*> now_used = uses(i);
        if (latency[i] > 1e-12) latency[i] -= step;
        for (EventRun::Use* use : now_used) {
          use->seconds -= step / slower(use->resource);
        }
      }
      now += step;
    }
  }
};

TEST(EventRun, AgreesWithASlowRunOfRandomGraphs) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937 draw(seed);
    const auto below = [&](int n) { return static_cast<int>(draw() % static_cast<unsigned>(n)); };
    EventRun run;
    Slow slow;
    std::vector<int> lanes(3), last(3, -1);
    for (int& lane : lanes) lane = run.add_lane();
    const std::vector<double> capacities{1, 2.5, 4};
    for (const double capacity : capacities) run.add_resource(capacity);
    for (int i = 0; i < 25; ++i) {
      EventRun::Work work;
      work.latency = below(3);
      for (EventRun::Use& use : work.uses) {
        use = {below(3), static_cast<double>(below(4)), static_cast<double>(1 + below(3))};
      }
      std::vector<int> after;
      if (i > 0 && below(2) == 0) after.push_back(below(i));
      const int lane = below(3);
      const int task = run.add(lanes[static_cast<size_t>(lane)], work, after);
      int& before = last[static_cast<size_t>(lane)];
      if (before >= 0) after.push_back(before);
      before = task;
      slow.works.push_back(work);
      slow.before.push_back(after);
    }
    run.run();
    slow.run(capacities);
    for (int i = 0; i < 25; ++i) {
      ASSERT_NEAR(run.end(i), slow.ends[static_cast<size_t>(i)], 1e-9) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace dlrm::plan_test
