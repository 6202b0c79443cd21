#include "comm/control/control_thread.h"

#include <chrono>
#include <memory>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

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

}  // namespace
}  // namespace dlrm::comm
