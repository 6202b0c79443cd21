#include <regex>
#include <thread>

#include "fixture.h"

namespace dlrm {
namespace {

class RunLog : public SmallRun {
 protected:
  void expect_logged(const Outcome& outcome, const std::vector<const char*>& patterns) const {
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    for (const char* pattern : patterns) {
      EXPECT_TRUE(std::regex_search(outcome.errors, std::regex(pattern))) << pattern << "\n"
                                                                          << outcome.errors;
    }
  }
};

TEST_F(RunLog, TellsWhatARunDoes) {
  expect_logged(train(2, "--set train.threads=2 --set train.steps=20"),
                {"2 ranks, 2 threads each, .+\n", "training on .*train\\.h5",
                 "step 20: test AUC 0\\.\\d{5}, log loss \\d\\.\\d{5}, accuracy 0\\.\\d{4}, "
                 "calibration \\d+\\.\\d{3}\n",
                 "20 steps, \\d+ samples/s, \\d+\\.\\d{3} ms a step\n", "files in run\n"});
  const Outcome one = train(1,
                            "--set train.threads=1 --set data.test= --set train.steps=1 "
                            "--set output.directory=alone");
  expect_logged(one, {"1 rank, 1 thread each, .+\n", "no test data: no evaluation\n",
                      "1 steps, .* ms a step\n"});
  EXPECT_EQ(one.errors.find("test AUC"), std::string::npos) << one.errors;
}

TEST_F(RunLog, TellsWherePredictionsAreAndTrainsNothing) {
  ASSERT_EQ(train(1, "--set checkpoint.at_end=true --set train.steps=3").code, 0);
  const Outcome outcome = train(1, "--predict out.csv --set output.directory=after");
  expect_logged(outcome, {"weights from ckpt/step_000000003 \\(step 3\\)\n",
                          "predictions of 501 samples in out\\.csv\n", "step 3: test AUC"});
  EXPECT_EQ(outcome.errors.find("training on"), std::string::npos) << outcome.errors;
  EXPECT_EQ(outcome.errors.find("ms a step"), std::string::npos) << outcome.errors;
}

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
