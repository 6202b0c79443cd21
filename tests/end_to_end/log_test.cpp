#include "dlrm/core/cpus.h"

#include "fixture.h"

namespace dlrm {
namespace {

using RunLog = SmallRun;

TEST_F(RunLog, WarnsIfTheLauncherLeavesProcessorsIdle) {
  if (cores_of(usable_cpu_set()) < 2) GTEST_SKIP() << "one core";
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

/// OpenMP then binds the main thread to one core, before the program begins.
TEST_F(RunLog, CountsTheSameThreadsIfOpenMPBindsThemToCores) {
  const auto threads = [&](const std::string& before) {
    const std::string log = run_command(before +
                                            " dlrm-train config.yaml --overwrite "
                                            "--set train.steps=1 --set train.threads=0",
                                        path(""))
                                .errors;
    const size_t at = log.find("1 rank, ");
    return at == std::string::npos ? log : log.substr(at, log.find(" each", at) - at);
  };
  const std::string unbound =
      "env -u OMP_NUM_THREADS -u OMP_PLACES -u OMP_PROC_BIND -u OMP_WAIT_POLICY";
  EXPECT_EQ(threads(unbound), threads(unbound + " OMP_PLACES=cores OMP_PROC_BIND=close"));
}

}  // namespace
}  // namespace dlrm
