#include "fixture.h"

namespace dlrm {
namespace {

/// A program that stops itself, if it is one of `ranks`, before it becomes dlrm-train.
std::string stopped_before_main(const std::string& ranks) {
  return "#!/bin/bash\ncase $OMPI_COMM_WORLD_RANK in " + ranks +
         ") kill -STOP $$ ;; esac\nexec dlrm-train \"$@\"\n";
}

class Start : public SmallRun {
 protected:
  void install(const std::string& ranks) {
    write_file(path("train.sh"), stopped_before_main(ranks));
    std::filesystem::permissions(path("train.sh"), std::filesystem::perms::owner_all);
  }

  void expect_no_process_left() {
    const Outcome left =
        run_command("for i in $(seq 100); do grep -lz '^" + config_ +
                        "$' /proc/[0-9]*/cmdline || exit 0; sleep 0.1; done; exit 1",
                    folder_.path());
    EXPECT_EQ(left.code, 0) << left.output;
  }

  /// With this folder's name, which marks the processes of this test.
  const std::string config_ = path("config.yaml").string();
};

TEST_F(Start, ARankThatIsStoppedBeforeItBeginsIsNamed) {
  install("1");
  const Outcome outcome =
      run_command("mpirun -np 3 ./train.sh " + config_ + " --set train.timeout=4", folder_.path());
  EXPECT_EQ(outcome.code, 3) << outcome.errors;
  EXPECT_NE(error_line(outcome).find("rank 1 is stopped (process "), std::string::npos)
      << outcome.errors;
  expect_no_process_left();
}

TEST_F(Start, RanksThatAreAllStoppedAreEndedByRunSh) {
  install("*");
  const Outcome outcome =
      run_command("DLRM_TRAIN=./train.sh DLRM_START_SECONDS=3 '" +
                      (source_folder() / "launch/run.sh").string() + "' -np 2 " + config_,
                  folder_.path());
  EXPECT_EQ(outcome.code, 3) << outcome.errors;
  EXPECT_NE(error_line(outcome).find("the ranks did not meet within 3 s"), std::string::npos)
      << outcome.errors;
  expect_no_process_left();
}

TEST_F(Start, RunShDoesNotLimitWhatFollows) {
  const Outcome outcome =
      run_command("DLRM_TRAIN=$(command -v dlrm-train) DLRM_START_SECONDS=30 '" +
                      (source_folder() / "launch/run.sh").string() + "' -np 2 " + config_,
                  folder_.path());
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
}

TEST_F(Start, RanksThatAreStoppedWhileTheySaveAreNamed) {
  const Outcome outcome = run_command(
      "mpirun -np 3 dlrm-train " + config_ +
          " --set train.steps=100000000 --set checkpoint.every_steps=1 --set train.timeout=4 &\n"
          "job=$!\nuntil ls ckpt/step_* >/dev/null 2>&1; do sleep 0.05; done\n"
          "kill -STOP $(pgrep -P $job dlrm-train | sort -n | head -n 2)\nwait $job",
      folder_.path());
  EXPECT_EQ(outcome.code, 3) << outcome.errors;
  EXPECT_NE(error_line(outcome).find("ranks 0, 1 no longer answer"), std::string::npos)
      << outcome.errors;
  expect_no_process_left();
}

}  // namespace
}  // namespace dlrm
