#include <thread>

#include "fixture.h"

namespace dlrm {
namespace {

using RunLog = SmallRun;

TEST_F(RunLog, WarnsIfTheLauncherLeavesProcessorsIdle) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one processor";
  const char* const kWarning = "the launcher bound this rank to 1 of the machine's ";
  const auto logged = [&](const std::string& before, const std::string& threads) {
    return run_command(before + " dlrm-train config.yaml --overwrite --set train.steps=1 " +
                           "--set train.threads=" + threads,
                       path(""))
        .errors;
  };
  EXPECT_NE(logged("taskset -c 0", "1").find(kWarning), std::string::npos);
  EXPECT_EQ(logged("taskset -c 0", "2").find(kWarning), std::string::npos);
  EXPECT_EQ(logged("", "1").find("the launcher bound"), std::string::npos);
}

}  // namespace
}  // namespace dlrm
