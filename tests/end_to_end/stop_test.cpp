#include "fixture.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;

// Never ends by itself. Saves checkpoints only on a request to stop.
constexpr const char* kUntilAsked =
    " config.yaml --set train.steps=100000000 --set eval.at_end=false";

/// Starts `start &`, waits until training runs (metrics are written), runs `signal`, and returns
/// the exit code of the started command.
std::string script(const std::string& start, const std::string& signal) {
  return start +
         " & job=$!\n"
         "for i in $(seq 600); do [ -s run/metrics.jsonl ] && break; sleep 0.05; done\n" +
         signal +
         "\nwait $job; code=$?\nwhile kill -0 $job 2>/dev/null; do wait $job; code=$?; done\nexit "
         "$code\n";
}

class Stopping : public SmallRun {
 protected:
  void expect_saved_and_resumable(const Outcome& outcome) {
    EXPECT_EQ(outcome.code, 130) << outcome.errors;
    ASSERT_TRUE(fs::exists(path("ckpt"))) << outcome.errors;
    int64_t step = -1;
    for (const auto& entry : fs::directory_iterator(path("ckpt"))) {
      const std::string name = entry.path().filename();
      ASSERT_EQ(name.rfind("step_", 0), 0u) << name;
      step = std::stoll(name.substr(5));
    }
    ASSERT_GT(step, 0);
    const Outcome resumed =
        train(1, "--resume --set eval.at_end=false --set train.steps=" + std::to_string(step + 3));
    EXPECT_EQ(resumed.code, 0) << resumed.errors;
    const auto lines = read_lines(path("run/metrics.jsonl"));
    EXPECT_EQ(lines.back()["step"], step + 3);
  }
};

TEST_F(Stopping, ASignalToASingleProcessSavesAndEndsWith130) {
  // Bash starts background jobs with SIGINT ignored, but the program installs its own handler.
  for (const std::string signal : {"TERM", "INT"}) {
    fs::remove_all(path("ckpt"));
    fs::remove_all(path("run"));
    expect_saved_and_resumable(
        run_command(script(std::string("dlrm-train") + kUntilAsked, "kill -" + signal + " $job"),
                    folder_.path()));
  }
}

TEST_F(Stopping, ASigusr1ToMpirunSavesAndEndsWith130) {
  expect_saved_and_resumable(
      run_command(script(std::string("mpirun -np 3 dlrm-train") + kUntilAsked, "kill -USR1 $job"),
                  folder_.path()));
}

TEST_F(Stopping, ASigusr1ToOneRankStopsThemAll) {
  expect_saved_and_resumable(
      run_command(script(std::string("mpirun -np 3 dlrm-train") + kUntilAsked,
                         "kill -USR1 $(pgrep -n -P $job dlrm-train)"),
                  folder_.path()));
}

TEST_F(Stopping, RunShTurnsSigtermIntoASave) {
  const std::string start = (source_folder() / "launch/run.sh").string() + " -np 2" + kUntilAsked;
  expect_saved_and_resumable(
      run_command("export DLRM_TRAIN=$(command -v dlrm-train)\n" + script(start, "kill -TERM $job"),
                  folder_.path()));
}

TEST_F(Stopping, RunShTurnsCtrlCIntoASave) {
  // With job control the job has its own process group, as a foreground job of a terminal has.
  const std::string start =
      "set -m\n" + (source_folder() / "launch/run.sh").string() + " -np 2" + kUntilAsked;
  expect_saved_and_resumable(
      run_command("export DLRM_TRAIN=$(command -v dlrm-train)\n" + script(start, "kill -INT -$job"),
                  folder_.path()));
}

TEST_F(Stopping, AStoppedEvaluationRemovesNoCheckpointAndLeavesNoPredictions) {
  ASSERT_EQ(train(1, "--set checkpoint.every_steps=20 --set train.steps=40").code, 0);
  const Outcome made = run_command(
      "dlrm-data synth --samples 3000000 --config config.yaml --output long.h5", folder_.path());
  ASSERT_EQ(made.code, 0) << made.errors;
  const Outcome outcome = run_command(
      "dlrm-train config.yaml --predict p.csv --set data.test=long.h5 2>log & job=$!\n"
      "for i in $(seq 600); do grep -q 'weights from' log && break; sleep 0.05; done\n"
      "kill -TERM $job\nwait $job",
      folder_.path());
  EXPECT_EQ(outcome.code, 130) << read_file(path("log"));
  EXPECT_TRUE(fs::exists(path("ckpt/step_000000020")) && fs::exists(path("ckpt/step_000000040")));
  EXPECT_FALSE(fs::exists(path("p.csv")));
}

TEST_F(Stopping, AStalledRankIsNamedByTheWatchdog) {
  const Outcome outcome = run_command(
      script(std::string("mpirun -np 3 dlrm-train") + kUntilAsked + " --set train.timeout=4",
             "rank=$(pgrep -n -P $job dlrm-train); kill -STOP $rank; trap \"kill -9 $rank\" EXIT"),
      folder_.path());
  EXPECT_EQ(outcome.code, 3) << outcome.errors;
  EXPECT_NE(outcome.errors.find("rank 2"), std::string::npos) << outcome.errors;
}

}  // namespace
}  // namespace dlrm
