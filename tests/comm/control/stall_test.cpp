#include "comm/control/stall.h"

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlrm::comm {
namespace {

using testing::HasSubstr;

PeerReport rank(int number, double idle, const char* stage,
                const std::vector<std::pair<const char*, int64_t>>& calls) {
  PeerReport peer;
  peer.received = true;
  peer.seconds_ago = 0.2;
  RankReport& report = peer.report;
  report.rank = number;
  report.idle_seconds = idle;
  report.timeout_seconds = 300;
  std::snprintf(report.stage, sizeof report.stage, "%s", stage);
  report.comm_count = 1;
  report.comms[0].entered = calls.size();
  for (size_t k = 0; k < calls.size(); ++k) {
    auto& entry = report.comms[0].calls[(k + 1) % CallLog::kKept];
    std::snprintf(entry.name, sizeof entry.name, "%s", calls[k].first);
    entry.bytes = calls[k].second;
  }
  return peer;
}

TEST(FindStall, ProgressIsNoStall) {
  EXPECT_FALSE(find_stall({rank(0, 299, "a", {}), rank(1, 3, "b", {})}, 300).found);
}

TEST(FindStall, ARankThatHasNotEnteredACallIsNamed) {
  const Stall stall = find_stall({rank(0, 301, "return", {{"barrier", 0}, {"alltoallv", 64}}),
                                  rank(1, 301, "lookup", {{"barrier", 0}}),
                                  rank(2, 301, "return", {{"barrier", 0}, {"alltoallv", 32}})},
                                 300);
  ASSERT_TRUE(stall.found);
  EXPECT_EQ(stall.error,
            "rank 1 made no progress for 300 s: not in alltoallv #2 where others wait, stage "
            "lookup");
  EXPECT_THAT(stall.table, HasSubstr("call #2: alltoallv not entered by rank 1\n"));
  EXPECT_THAT(stall.table, HasSubstr("alltoallv #2 (64 bytes)"));
}

TEST(FindStall, TheFirstCallThatARankLacksIsNamed) {
  const std::vector<std::pair<const char*, int64_t>> calls{
      {"barrier", 0}, {"broadcast", 1}, {"alltoallv", 2}, {"allgatherv", 3}, {"allreduce", 4}};
  const auto entered = [&](int number, size_t count) {
    return rank(number, 301, "s", {calls.begin(), calls.begin() + static_cast<int>(count)});
  };
  const Stall stall = find_stall({entered(0, 5), entered(1, 2), entered(2, 4)}, 300);
  EXPECT_EQ(stall.error,
            "rank 1 made no progress for 300 s: not in alltoallv #3 where others wait, stage s");
  const Stall two = find_stall({entered(0, 2), entered(1, 3), entered(2, 2)}, 300);
  EXPECT_EQ(
      two.error,
      "ranks 0, 2 made no progress for 300 s: not in alltoallv #3 where others wait, stage s");
}

TEST(FindStall, TheTimeSinceAReportCountsAsIdle) {
  std::vector<PeerReport> ranks = {rank(0, 200, "a", {}), rank(1, 1, "b", {})};
  ranks[0].seconds_ago = ranks[1].seconds_ago = 99;
  EXPECT_FALSE(find_stall(ranks, 300).found);
  ranks[0].seconds_ago = ranks[1].seconds_ago = 100;
  EXPECT_TRUE(find_stall(ranks, 300).found);
  ranks[0].report.timeout_seconds = 0;  // not watched
  EXPECT_FALSE(find_stall(ranks, 300).found);
}

TEST(FindStall, TheTableShowsWhatEachRankDid) {
  std::vector<PeerReport> ranks = {rank(0, 301, "return", {{"barrier", 0}, {"alltoallv", 64}}),
                                   rank(1, 5.25, "lookup", {{"barrier", 0}, {"broadcast", 8}}),
                                   PeerReport{}, rank(3, 2, "load", {})};
  // Rank 0 has entered one call of another communicator.
  ranks[0].report.comm_count = 2;
  ranks[0].report.comms[1] = ranks[0].report.comms[0];
  ranks[0].report.comms[1].id = 7;
  ranks[0].report.comms[1].entered = 1;
  ranks[2].seconds_ago = 400;
  const Stall stall = find_stall(ranks, 300);
  EXPECT_EQ(stall.table,
            "watchdog: no progress for 300 s\n"
            "  rank  last heard       idle  stage         last call\n"
            "     0       0.2 s    301.2 s  return        alltoallv #2 (64 bytes)\n"
            "     1       0.2 s      5.5 s  lookup        broadcast #2 (8 bytes)\n"
            "     2       never\n"
            "     3       0.2 s      2.2 s  load          none\n"
            "  communicator 0, call #1: barrier not entered by ranks 2, 3\n"
            "  communicator 7, call #1: barrier not entered by ranks 1, 2, 3\n");
  EXPECT_EQ(stall.error, "rank 2 no longer answers: last heard 400 s ago in stage start");
}

/// Two ranks on each of two hosts.
std::vector<PeerReport> on_two_hosts() {
  std::vector<PeerReport> ranks;
  for (int r = 0; r < 4; ++r) {
    ranks.push_back(rank(r, 301, "lookup", {{"barrier", 0}}));
    std::snprintf(ranks.back().report.host, sizeof(RankReport::host), "node%d", r / 2);
  }
  return ranks;
}

TEST(FindStall, OnSeveralHostsTheyAreNamed) {
  std::vector<PeerReport> silent = on_two_hosts();
  silent[2].seconds_ago = 301;
  silent[3].seconds_ago = 302;
  const Stall stall = find_stall(silent, 300);
  EXPECT_EQ(stall.error,
            "ranks 2, 3 on node1 no longer answer: last heard 301 s ago in stage lookup");
  EXPECT_THAT(stall.table,
              HasSubstr("  rank  host              last heard       idle  stage         last call\n"
                        "     0  node0                  0.2 s    301.2 s  lookup"));
  silent[1].seconds_ago = 301;
  EXPECT_THAT(find_stall(silent, 300).error, HasSubstr("ranks 1, 2, 3 on node0, node1 no longer"));
  std::vector<PeerReport> behind = on_two_hosts();
  behind[3].report.comms[0].entered = 0;
  EXPECT_THAT(find_stall(behind, 300).error, HasSubstr("rank 3 on node1 made no progress"));
  std::vector<PeerReport> idle = on_two_hosts();
  idle[1].report.idle_seconds = 400;
  EXPECT_THAT(find_stall(idle, 300).error, HasSubstr("rank 1 on node0 made no progress"));
}

TEST(FindStall, HostsThatNeverReportedAreNotNamed) {
  std::vector<PeerReport> ranks = on_two_hosts();
  ranks[3] = PeerReport{};
  ranks[3].seconds_ago = 301;
  const Stall stall = find_stall(ranks, 300);
  EXPECT_THAT(stall.error, HasSubstr("rank 3 no longer answers"));
  EXPECT_THAT(stall.table, HasSubstr("     3                         never\n"));
}

TEST(FindStall, APauseExcusesIdlenessButNotSilence) {
  std::vector<PeerReport> ranks = {rank(0, 400, "wait", {{"barrier", 0}}), rank(1, 0, "load", {})};
  ranks[1].report.paused = 1;
  EXPECT_FALSE(find_stall(ranks, 300).found);
  ranks[0].seconds_ago = 310;
  EXPECT_TRUE(find_stall(ranks, 300).found);
}

TEST(FindStall, WithinOneCallTheIdlestRankIsNamed) {
  const Stall stall =
      find_stall({rank(0, 301, "a", {{"barrier", 0}}), rank(1, 350, "b", {{"barrier", 0}})}, 300);
  ASSERT_TRUE(stall.found);
  EXPECT_EQ(stall.error, "rank 1 made no progress for 300 s in stage b");
}

TEST(FindStall, DifferentCallsAreNamedByTheirNamesOrder) {
  const Stall stall =
      find_stall({rank(0, 2.5, "a", {{"broadcast", 8}}), rank(1, 2.5, "b", {{"allreduce", 8}}),
                  rank(2, 2.5, "c", {{"barrier", 0}})},
                 2.5);
  EXPECT_EQ(stall.error,
            "no progress for 2.5 s: ranks made different calls: rank 1 allreduce, rank 0 "
            "broadcast");
  EXPECT_THAT(stall.table, HasSubstr("  communicator 0, call #1: rank 1 entered allreduce; rank 2 "
                                     "entered barrier; rank 0 entered broadcast\n"));
}

}  // namespace
}  // namespace dlrm::comm
