#include "comm/control/watchdog.h"

#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/core/host_name.h"

#include "comm/control/message_kind.h"
#include "recording_channel.h"

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

/// What rank `rank` of `size` sends with its first report. It has entered `calls` on each of
/// `comms` communicators.
std::vector<RecordingChannel::Sent> first_report(int rank, int size, int comms, int calls,
                                                 std::map<int, int> waiting = {}) {
  Monitor monitor;
  Trace trace;
  RecordingChannel channel;
  channel.waiting = std::move(waiting);
  std::vector<std::unique_ptr<CallLog>> logs;
  for (int c = 0; c < comms; ++c) {
    logs.push_back(monitor.make_call_log());
    for (int k = 1; k <= calls; ++k) logs.back()->enter("a name of 17 bytes", 100 * c + k);
  }
  Watchdog watchdog(rank, size, &channel, monitor);
  watchdog.start(1000, trace);
  EXPECT_EQ(watchdog.timeout(), 1000);
  watchdog.check();
  EXPECT_EQ(channel.progress, 1);
  const size_t sent = channel.sent.size();
  watchdog.check();  // the next report is not due yet
  EXPECT_EQ(channel.sent.size(), sent);
  return channel.sent;
}

std::vector<std::pair<int, int>> kinds_of(const std::vector<RecordingChannel::Sent>& sent) {
  std::vector<std::pair<int, int>> kinds;
  for (const auto& message : sent) kinds.emplace_back(message.to, message.kind);
  return kinds;
}

TEST(WatchdogReports, GoToBothJudgesWhichTellTheOthersThatTheyAreAlive) {
  using Kinds = std::vector<std::pair<int, int>>;
  EXPECT_EQ(kinds_of(first_report(0, 4, 1, 0)), (Kinds{{1, kReport}, {2, kAlive}, {3, kAlive}}));
  EXPECT_EQ(kinds_of(first_report(1, 3, 1, 0)), (Kinds{{0, kReport}, {2, kAlive}}));
  EXPECT_EQ(kinds_of(first_report(2, 4, 1, 0)), (Kinds{{0, kReport}, {1, kReport}}));
  EXPECT_EQ(kinds_of(first_report(0, 1, 1, 0)), Kinds{});
  EXPECT_EQ(kinds_of(first_report(0, 4, 1, 0, {{1, 2}, {2, 1}, {3, 2}})), (Kinds{{2, kAlive}}));
  EXPECT_EQ(kinds_of(first_report(3, 4, 1, 0, {{0, 1}, {1, 2}})), (Kinds{{0, kReport}}));
}

std::vector<RankReport> reports_of(const std::vector<RecordingChannel::Sent>& sent) {
  std::vector<RankReport> reports;
  for (const auto& message : sent) {
    EXPECT_EQ(message.bytes.size(), sizeof(RankReport));
    RankReport& report = reports.emplace_back();
    std::memcpy(static_cast<void*>(&report), message.bytes.data(), sizeof report);
  }
  return reports;
}

TEST(WatchdogReports, ContainTheLastCallsOfEachCommunicator) {
  const std::vector<RankReport> reports = reports_of(first_report(1, 2, 2, 9));
  ASSERT_EQ(reports.size(), 1u);
  const RankReport& report = reports[0];
  EXPECT_EQ(report.rank, 1);
  EXPECT_EQ(report.host, host_name().substr(0, sizeof report.host - 1));
  EXPECT_EQ(report.paused, 0);
  EXPECT_EQ(report.timeout_seconds, 1000);
  EXPECT_GE(report.idle_seconds, 0);
  EXPECT_LT(report.idle_seconds, 100);
  EXPECT_EQ(report.page, 0);
  EXPECT_EQ(report.pages, 1);
  ASSERT_EQ(report.comm_count, 2);
  for (int c = 0; c < 2; ++c) {
    EXPECT_EQ(report.comms[c].id, c);
    EXPECT_EQ(report.comms[c].entered, 9u);
    EXPECT_STREQ(report.comms[c].calls[1].name, "a name of 17 by");
    EXPECT_EQ(report.comms[c].calls[1].bytes, 100 * c + 9);
    EXPECT_EQ(report.comms[c].calls[2].bytes, 100 * c + 2);
  }
}

TEST(WatchdogReports, ContinueOnFurtherPages) {
  for (const int comms : {13, 14, 27}) {
    const std::vector<RankReport> pages = reports_of(first_report(1, 2, comms, 1));
    const int count = (comms + 12) / 13;
    ASSERT_EQ(static_cast<int>(pages.size()), count);
    int id = 0;
    for (int p = 0; p < count; ++p) {
      const RankReport& page = pages[static_cast<size_t>(p)];
      EXPECT_EQ(page.page, p);
      EXPECT_EQ(page.pages, count);
      EXPECT_EQ(page.rank, 1);
      for (int c = 0; c < page.comm_count; ++c) EXPECT_EQ(page.comms[c].id, id++);
    }
    EXPECT_EQ(id, comms);
  }
}

TEST(WatchdogReports, EndOnceTheyAreStopped) {
  Monitor monitor;
  Trace trace;
  RecordingChannel channel;
  Watchdog watchdog(0, 2, &channel, monitor);
  watchdog.start(1000, trace);
  EXPECT_FALSE(watchdog.reports_stopped());
  watchdog.stop_reports();
  EXPECT_TRUE(watchdog.reports_stopped());
  EXPECT_FALSE(watchdog.check());
  EXPECT_TRUE(channel.sent.empty());
}

TEST(WatchdogReports, TellThatTheRankIsPausedAndInWhichStage) {
  Monitor monitor;
  Trace trace;
  RecordingChannel channel;
  Watchdog watchdog(1, 2, &channel, monitor);
  watchdog.start(1000, trace);
  watchdog.pause(true);
  const Span span(trace, "lookup");
  watchdog.check();
  const std::vector<RankReport> reports = reports_of(channel.sent);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].paused, 1);
  EXPECT_STREQ(reports[0].stage, "lookup");
}

/// A failure that is there from the start.
struct Failing final : FailureSource {
  std::string failure() override { return "the network is down"; }
};

TEST(Watchdog, AFailureOfAPartEndsTheJobAtOnce) {
  Monitor monitor;
  Trace trace;
  Failing failing;
  monitor.add(failing);
  Watchdog watchdog(0, 2, nullptr, monitor);
  watchdog.start(1000, trace);
  const std::optional<Alarm> alarm = watchdog.check();
  ASSERT_TRUE(alarm);
  EXPECT_EQ(alarm->error, "the network is down");
  EXPECT_EQ(alarm->table, "");
  EXPECT_FALSE(alarm->rank0_is_silent);
  monitor.remove(failing);
  EXPECT_EQ(monitor.failure(), "");
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

TEST(Watchdog, APausedRankMayMakeNoProgress) {
  Monitor monitor;
  Trace trace;
  Watchdog watchdog(0, 1, nullptr, monitor);
  watchdog.start(0.1, trace);
  watchdog.pause(true);
  for (int i = 0; i < 80; ++i) {
    EXPECT_FALSE(watchdog.check());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  watchdog.pause(false);
  EXPECT_TRUE(look(watchdog, [] {}).alarm);
}

}  // namespace
}  // namespace dlrm::comm
