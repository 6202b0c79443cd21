// A watchdog whose looks are all more than an interval apart, so that each adds one interval to the
// time since a rank was heard, however busy the machine is.
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/control/watchdog.h"

namespace dlrm::comm {
namespace {

constexpr double kShortTimeout = 0.08;
constexpr auto kApart = std::chrono::milliseconds(22);  // an interval is 20 ms
constexpr int kMany = 12;                               // more than a timeout and two looks

/// Looks until there is an alarm, at most `most` times. Returns the number of looks without one.
int quiet_looks(
    Watchdog& watchdog, int most, const std::function<void()>& before = [] {},
    std::optional<Alarm>* found = nullptr) {
  for (int look = 0; look < most; ++look) {
    before();
    std::this_thread::sleep_for(kApart);
    const std::optional<Alarm> alarm = watchdog.check();
    if (alarm && found) *found = alarm;
    if (alarm) return look;
  }
  return most;
}

RankReport report_of_rank1() {
  RankReport report;
  report.rank = 1;
  return report;
}

TEST(WatchdogLooks, BothThatFindAReasonFollowOneAnother) {
  const Trace trace;
  Monitor monitor;
  Watchdog watchdog(0, 2, nullptr, monitor);
  watchdog.start(kShortTimeout, trace);
  EXPECT_FALSE(watchdog.check());
  const auto progress = [&] { monitor.count_progress(); };
  // The fifth look after a report is the first that finds a reason. Another report follows it.
  for (int report = 0; report < 3; ++report) {
    watchdog.receive(1, report_of_rank1());
    EXPECT_EQ(quiet_looks(watchdog, 5, progress), 5) << report;
  }
  EXPECT_LT(quiet_looks(watchdog, 100, progress), kMany);
}

TEST(WatchdogLooks, ARankOtherThanZeroJudgesNobodyWhileRankZeroIsHeard) {
  const Trace trace;
  for (const int rank : {1, 2}) {
    Monitor monitor;
    Watchdog watchdog(rank, 4, nullptr, monitor);
    watchdog.start(kShortTimeout, trace);
    watchdog.check();
    EXPECT_EQ(quiet_looks(watchdog, kMany,
                          [&] {
                            monitor.count_progress();
                            watchdog.hear(0);
                          }),
              kMany)
        << "rank " << rank;
    EXPECT_LT(quiet_looks(watchdog, 100, [&] { monitor.count_progress(); }), kMany)
        << "rank " << rank;
  }
}

TEST(WatchdogLooks, ACallOrANewStageIsProgress) {
  struct Case {
    bool calls, stages;
  };
  for (const Case& c : {Case{true, false}, Case{false, true}, Case{false, false}}) {
    Monitor monitor;
    Trace trace;
    Watchdog watchdog(0, 1, nullptr, monitor);
    watchdog.start(kShortTimeout, trace);
    watchdog.check();
    std::optional<Span> span;
    const int quiet = quiet_looks(watchdog, kMany, [&] {
      if (c.calls) monitor.count_progress();
      if (!c.stages) return;
      if (span) {
        span.reset();
      } else {
        span.emplace(trace, "lookup");
      }
    });
    EXPECT_EQ(quiet == kMany, c.calls || c.stages) << c.calls << c.stages;
  }
}

TEST(WatchdogLooks, ASecondStartReplacesTimeoutAndTrace) {
  Monitor monitor;
  Trace first, second;
  const Span of_first(first, "top"), of_second(second, "lookup");
  Watchdog watchdog(0, 1, nullptr, monitor);
  watchdog.start(1000, first);
  EXPECT_EQ(quiet_looks(watchdog, kMany), kMany);
  watchdog.start(kShortTimeout, second);
  EXPECT_EQ(watchdog.timeout(), kShortTimeout);
  std::optional<Alarm> alarm;
  EXPECT_LT(quiet_looks(
                watchdog, 100, [] {}, &alarm),
            kMany);
  ASSERT_TRUE(alarm);
  EXPECT_EQ(alarm->error, "rank 0 made no progress for 0.08 s in stage lookup");
}

/// A failure that a look finds is no reason of the ranks: it counts at once, and goes with it.
TEST(WatchdogLooks, AFailureCountsAtTheNextReport) {
  struct Failing final : FailureSource {
    std::string failure() override { return text; }
    std::string text;
  } source;
  Monitor monitor;
  const Trace trace;
  monitor.add(source);
  Watchdog watchdog(0, 1, nullptr, monitor);
  watchdog.start(1000, trace);
  EXPECT_FALSE(watchdog.check());
  source.text = "the network is down";
  EXPECT_FALSE(watchdog.check()) << "no report is due before a second has passed";
  watchdog.start(kShortTimeout, trace);
  std::optional<Alarm> alarm;
  EXPECT_EQ(quiet_looks(
                watchdog, 3, [&] { monitor.count_progress(); }, &alarm),
            0);
  ASSERT_TRUE(alarm);
  EXPECT_EQ(alarm->error, "the network is down");
  source.text.clear();
  EXPECT_EQ(quiet_looks(watchdog, kMany, [&] { monitor.count_progress(); }), kMany);
  monitor.remove(source);
}

}  // namespace
}  // namespace dlrm::comm
