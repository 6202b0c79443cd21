#include "comm/control/control_thread.h"

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "comm/control/message_kind.h"
#include "recording_channel.h"

namespace dlrm::comm {
namespace {

/// Watches `ranks` ranks without a channel for `time`, then ends with 7. The timeout is 0.2 s.
[[noreturn]] void watch_without_a_channel(int ranks, std::chrono::milliseconds time) {
  ControlThread control(0, ranks, nullptr, std::make_shared<ProgressEngine>(WaitPolicy::kSpin));
  const Trace trace;
  control.start_watchdog(0.2, trace);
  std::this_thread::sleep_for(time);
  ::_exit(7);
}

TEST(ControlThreadDeath, WithoutAChannelOnlyASingleRankIsWatched) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(watch_without_a_channel(2, std::chrono::milliseconds(900)),
              testing::ExitedWithCode(7), "^$");
  EXPECT_EXIT(watch_without_a_channel(1, std::chrono::minutes(5)), testing::ExitedWithCode(3),
              "rank 0 made no progress");
}

/// A control thread of rank `rank` of `ranks`, which receives these messages. With a `timeout` it
/// watches. With an `error` it ends all. Ends with 7 otherwise.
[[noreturn]] void control(int rank, int ranks, std::vector<ControlChannel::Message> incoming,
                          double timeout = 0, const char* error = nullptr) {
  auto channel = std::make_unique<RecordingChannel>(true);
  channel->incoming = std::move(incoming);
  ControlThread control(rank, ranks, std::move(channel),
                        std::make_shared<ProgressEngine>(WaitPolicy::kSpin));
  const Trace trace;
  if (timeout > 0) control.start_watchdog(timeout, trace);
  if (error) control.end_all(ExitCode::kUsage, error);
  std::this_thread::sleep_for(std::chrono::milliseconds(timeout > 0 ? 300000 : 300));
  ::_exit(7);
}

ControlChannel::Message message_of(int from, int kind, const std::string& bytes) {
  return {from, kind, {bytes.begin(), bytes.end()}};
}

const std::string kTwo("\2\0\0\0", 4);

TEST(ControlThreadDeath, ARequestOfAnotherRankEndsTheJob) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(control(0, 2, {message_of(1, kEndRequest, kTwo + "no")}), testing::ExitedWithCode(2),
              "^error: no\n<send 3 to 1: 2>\n");
  EXPECT_EXIT(control(1, 2, {message_of(0, kEndNow, kTwo)}), testing::ExitedWithCode(2), "^$");
  EXPECT_EXIT(control(0, 2, {message_of(1, kReport, "too short"), message_of(1, kAlive, "")}),
              testing::ExitedWithCode(7), "^$");
}

TEST(ControlThreadDeath, AnErrorOfThisRankEndsTheJob) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(control(0, 3, {}, 0, "no such key"), testing::ExitedWithCode(2),
              "^error: no such key\n<send 3 to 1: 2>\n<send 3 to 2: 2>\n");
}

TEST(ControlThreadDeath, ASilentRankEndsTheJobWithATable) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(control(0, 2, {}, 0.2), testing::ExitedWithCode(3),
              "watchdog: no progress for 0.2 s\n.*\n.*\n     1       never\n"
              "error: rank 1 no longer answers");
  EXPECT_EXIT(control(1, 2, {}, 0.2), testing::ExitedWithCode(3),
              "error: rank 0 no longer answers.*\n<send 3 to 0: 3>\n<abort 3>\n");
}

}  // namespace
}  // namespace dlrm::comm
