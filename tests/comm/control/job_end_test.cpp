#include "comm/control/job_end.h"

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "recording_channel.h"

namespace dlrm::comm {
namespace {

/// Ends this process as rank 0 with these requests.
void end_with(const std::vector<JobEnd::Request>& requests, const std::string& preface = "") {
  ProgressEngine engine(WaitPolicy::kSpin);
  JobEnd job(0, 1, nullptr, engine);
  job.set_preface(preface);
  for (const JobEnd::Request& request : requests) job.add(request);
  job.advance();
}

TEST(JobEndDeath, TheLowestRanksTextIsPrintedAndItsCodeReturned) {
  EXPECT_EXIT(end_with({{2, 2, "two"}, {1, 3, "one"}, {3, 2, "three"}}), testing::ExitedWithCode(3),
              "^error: one\n$");
}

TEST(JobEndDeath, ATextPrecedesALowerRankWithoutOne) {
  EXPECT_EXIT(end_with({{2, 2, "two"}, {0, 3, ""}, {1, 3, ""}}), testing::ExitedWithCode(2),
              "^error: two\n$");
  EXPECT_EXIT(end_with({{1, 3, ""}, {0, 2, ""}}), testing::ExitedWithCode(2), "^$");
}

TEST(JobEndDeath, OnlyFailuresAreErrors) {
  EXPECT_EXIT(end_with({{0, 0, "done"}}), testing::ExitedWithCode(0), "^done\n$");
  EXPECT_EXIT(end_with({{0, 130, "stopped"}}), testing::ExitedWithCode(130), "^stopped\n$");
  EXPECT_EXIT(end_with({{0, 2, "bad\n"}}), testing::ExitedWithCode(2), "^error: bad\n$");
}

TEST(JobEndDeath, ThePrefacePrecedesTheText) {
  EXPECT_EXIT(end_with({{0, 3, "why"}}, "a table\n"), testing::ExitedWithCode(3),
              "^a table\nerror: why\n$");
}

/// Advances the end of a job of three ranks until this process ends.
void end_as(int rank, const std::vector<JobEnd::Request>& requests) {
  ProgressEngine engine(WaitPolicy::kSpin);
  RecordingChannel channel(true);
  JobEnd job(rank, 3, &channel, engine);
  job.set_preface("a table\n");
  for (const JobEnd::Request& request : requests) job.add(request);
  for (;;) {
    job.advance();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(JobEndDeath, RankZeroTellsAllOthersToEndWithItsCode) {
  EXPECT_EXIT(end_as(0, {{1, 3, "one"}}), testing::ExitedWithCode(3),
              "^a table\nerror: one\n<send 3 to 1: 3>\n<send 3 to 2: 3>\n<left>\n$");
  EXPECT_EXIT(end_as(0, {{0, 130, ""}}), testing::ExitedWithCode(130),
              "^a table\n<send 3 to 1: 130>\n<send 3 to 2: 130>\n<left>\n$");
}

/// As rank 0 of three, adds a request of a lower rank after it has begun to end the job.
void end_with_a_later_request() {
  ProgressEngine engine(WaitPolicy::kSpin);
  RecordingChannel channel;
  JobEnd job(0, 3, &channel, engine);
  job.add({2, 2, "two"});
  job.advance();
  job.add({1, 3, "one"});
  for (;;) job.advance();
}

TEST(JobEndDeath, RankZeroWaitsForTheRequestsOfOthers) {
  EXPECT_EXIT(end_with_a_later_request(), testing::ExitedWithCode(3), "^error: one\n$");
}

/// As rank 0 of two, ends the job over a channel whose messages leave at that question.
void end_when_messages_leave(int at) {
  ProgressEngine engine(WaitPolicy::kSpin);
  RecordingChannel channel(true);
  channel.leaves_at = at;
  JobEnd job(0, 2, &channel, engine);
  job.add({0, 2, ""});
  for (;;) job.advance();
}

TEST(JobEndDeath, RankZeroWaitsUntilItsOrdersHaveLeftButNotForEver) {
  EXPECT_EXIT(end_when_messages_leave(2), testing::ExitedWithCode(2),
              "^<send 3 to 1: 2>\n<left>\n$");
  EXPECT_EXIT(end_when_messages_leave(1 << 30), testing::ExitedWithCode(2), "^<send 3 to 1: 2>\n$");
}

TEST(JobEndDeath, MpiIsFinalizedIfTheJobSucceeded) {
  EXPECT_EXIT(end_as(0, {{0, 0, "done"}}), testing::ExitedWithCode(0),
              "^a table\ndone\n<send 3 to 1: 0>\n<send 3 to 2: 0>\n<left>\n<finalize>\n$");
}

/// Receives a message of this kind and bytes as rank 2 of three. Ends with 77 if nothing happens.
[[noreturn]] void receive_as_rank2(int kind, const std::string& bytes) {
  ProgressEngine engine(WaitPolicy::kSpin);
  RecordingChannel channel(true);
  JobEnd job(2, 3, &channel, engine);
  job.receive({1, kind, {bytes.begin(), bytes.end()}});
  std::_Exit(job.requested() ? 78 : 77);
}

TEST(JobEndDeath, AnOrderToEndIsObeyedAndOtherMessagesAreNot) {
  const std::string three("\3\0\0\0", 4);
  EXPECT_EXIT(receive_as_rank2(3, three), testing::ExitedWithCode(3), "^$");
  EXPECT_EXIT(receive_as_rank2(3, std::string(4, '\0')), testing::ExitedWithCode(0),
              "^<finalize>\n$");
  EXPECT_EXIT(receive_as_rank2(3, three.substr(0, 3)), testing::ExitedWithCode(77), "^$");
  EXPECT_EXIT(receive_as_rank2(2, three.substr(0, 3)), testing::ExitedWithCode(77), "^$");
  EXPECT_EXIT(receive_as_rank2(2, three + "why"), testing::ExitedWithCode(78), "^$");
  EXPECT_EXIT(receive_as_rank2(4, three), testing::ExitedWithCode(77), "^$");
}

}  // namespace
}  // namespace dlrm::comm
