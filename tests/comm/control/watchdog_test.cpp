#include "comm/control/watchdog.h"

#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlrm::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kTimeout = 0.4;

struct Found {
  std::optional<Alarm> alarm;
  double seconds = 0;  ///< since the start
};

/// Looks as the control thread does, until there is an alarm, at most for 30 s.
Found look(Watchdog& watchdog, const std::function<void()>& between) {
  const auto begin = Clock::now();
  Found found;
  while (!found.alarm && found.seconds < 30) {
    between();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    found.alarm = watchdog.check();
    found.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  return found;
}

RankReport page_of(int16_t page, int16_t pages) {
  RankReport report;
  report.rank = 1;
  report.page = page;
  report.pages = pages;
  return report;
}

TEST(Watchdog, TheSecondLookThatFindsAReasonEndsTheJob) {
  Monitor monitor;
  Trace trace;
  Watchdog watchdog(0, 2, nullptr, monitor);
  EXPECT_FALSE(watchdog.check());  // it is not started
  watchdog.start(kTimeout, trace);
  const Found found = look(watchdog, [&] { monitor.count_progress(); });
  ASSERT_TRUE(found.alarm);
  EXPECT_THAT(found.alarm->error, testing::HasSubstr("rank 1 no longer answers"));
  EXPECT_FALSE(found.alarm->rank0_is_silent);
  // Looks are a quarter of the timeout apart.
  EXPECT_GE(found.seconds, kTimeout * 1.25);
}

TEST(Watchdog, AReportCountsOnceAllItsPagesHaveArrived) {
  Monitor monitor;
  Trace trace;
  Watchdog watchdog(0, 2, nullptr, monitor);
  watchdog.start(kTimeout, trace);
  const Found found = look(watchdog, [&] {
    monitor.count_progress();
    watchdog.receive(1, page_of(0, 2));
  });
  ASSERT_TRUE(found.alarm);
  EXPECT_THAT(found.alarm->error, testing::HasSubstr("rank 1 no longer answers"));
  EXPECT_LT(found.seconds, 30);
}

TEST(Watchdog, RankOneJudgesIfRankZeroIsSilent) {
  Monitor monitor;
  Trace trace;
  Watchdog watchdog(1, 3, nullptr, monitor);
  watchdog.start(kTimeout, trace);
  const Found found = look(watchdog, [&] {
    monitor.count_progress();
    watchdog.hear(2);
  });
  ASSERT_TRUE(found.alarm);
  EXPECT_TRUE(found.alarm->rank0_is_silent);
  EXPECT_THAT(found.alarm->error, testing::HasSubstr("rank 0 no longer answers"));
}

TEST(Watchdog, OtherRanksWaitForBothJudges) {
  Monitor monitor;
  Trace trace;
  Watchdog watchdog(2, 3, nullptr, monitor);
  watchdog.start(kTimeout, trace);
  int looks = 0;
  const Found found = look(watchdog, [&] {
    monitor.count_progress();
    if (++looks < 120) watchdog.hear(1);
  });
  ASSERT_TRUE(found.alarm);
  EXPECT_GE(looks, 120);
  EXPECT_THAT(found.alarm->error, testing::HasSubstr("ranks 0, 1 no longer answer: last heard"));
  EXPECT_TRUE(found.alarm->rank0_is_silent);
}

TEST(Watchdog, HigherRanksGiveLowerOnesTwoLooksEach) {
  Monitor monitor;
  Trace trace;
  Watchdog watchdog(4, 5, nullptr, monitor);
  watchdog.start(kTimeout, trace);
  const Found found = look(watchdog, [&] { monitor.count_progress(); });
  ASSERT_TRUE(found.alarm);
  // Two ranks before it, looks a quarter of the timeout apart, and its own second look.
  EXPECT_GE(found.seconds, kTimeout * (1 + 4 * 0.25 + 0.25));
}

/// This thread does not run for longer than the timeout. That counts as one interval of 0.1 s.
TEST(Watchdog, TimeInWhichAProcessIsStoppedDoesNotCount) {
  for (const int ranks : {1, 2}) {
    Monitor monitor;
    Trace trace;
    Watchdog watchdog(0, ranks, nullptr, monitor);
    watchdog.start(kTimeout, trace);
    EXPECT_FALSE(watchdog.check());
    for (const int milliseconds : {600, 110, 110}) {
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      if (ranks == 2) monitor.count_progress();
      EXPECT_FALSE(watchdog.check()) << ranks << " ranks";
    }
  }
}

TEST(Watchdog, TheFirstPageOfAReportReplacesTheOneBefore) {
  Monitor monitor;
  Trace trace;
  Watchdog watchdog(0, 2, nullptr, monitor);
  watchdog.start(kTimeout, trace);
  RankReport more = page_of(1, 2);
  more.comm_count = 1;
  more.comms[0].id = 20;
  more.comms[0].entered = 1;
  watchdog.receive(1, page_of(0, 2));
  watchdog.receive(1, more);
  watchdog.receive(1, page_of(0, 1));  // that communicator is gone
  const Found found = look(watchdog, [&] { monitor.count_progress(); });
  ASSERT_TRUE(found.alarm);
  EXPECT_EQ(found.alarm->table.find("communicator"), std::string::npos) << found.alarm->table;
}

TEST(Watchdog, ARankWithoutProgressIsFoundThoughItAnswers) {
  Monitor monitor;
  Trace trace;
  Watchdog watchdog(0, 2, nullptr, monitor);
  watchdog.start(kTimeout, trace);
  RankReport idle = page_of(0, 1);
  idle.idle_seconds = 5, idle.timeout_seconds = kTimeout;
  const Found found = look(watchdog, [&] {
    monitor.count_progress();
    watchdog.receive(1, idle);
  });
  ASSERT_TRUE(found.alarm);
  EXPECT_THAT(found.alarm->error, testing::HasSubstr("rank 1 made no progress"));
  EXPECT_LT(found.seconds, 30);
}

}  // namespace
}  // namespace dlrm::comm
