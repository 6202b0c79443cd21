#include "fixture.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;

using FolderUse = SmallRun;

const std::string kEndless =
    "config.yaml --set train.steps=100000000 --set eval.at_end=false "
    "--set checkpoint.every_steps=500 ";
const std::string kWaitUntilItSaved =
    "for i in $(seq 1200); do ls -d ckpt/step_* >/dev/null 2>&1 && break; sleep 0.05; done\n";

/// A job of two ranks that saves into ckpt and logs into run. Other jobs share its folders.
class SharedFolders : public SmallRun {
 protected:
  /// Starts the job, waits for its first checkpoint, runs `other` while the job pauses, and asks it
  /// to stop. The exit code is the job's. That of `other` is in the file code.
  Outcome beside(const std::string& other) const {
    return run_command("mpirun -np 2 dlrm-train " + kEndless + "2>first.log & job=$!\n" +
                           kWaitUntilItSaved +
                           "ranks=$(pgrep -P $job dlrm-train); kill -STOP $ranks\n" + other +
                           "\necho $? >code\nkill -CONT $ranks; kill -USR1 $job\n"
                           "wait $job; code=$?\n"
                           "while kill -0 $job 2>/dev/null; do wait $job; code=$?; done\n"
                           "cat first.log >&2\nexit $code\n",
                       folder_.path());
  }
};

TEST_F(SharedFolders, ASecondJobThatWouldSaveOrLogThereOrOverwriteItIsRefused) {
  const std::vector<std::string> jobs = {
      "mpirun -np 2 dlrm-train " + kEndless + "--resume --set output.directory=other",
      "mpirun -np 2 dlrm-train " + kEndless + "--set checkpoint.directory=other",
      "dlrm-train config.yaml --overwrite --set output.directory=other"};
  std::string commands;
  for (size_t i = 0; i < jobs.size(); ++i) {
    commands +=
        fmt::format("({} 2>second{}.log; echo $? >>codes) & seconds+=\" $!\"\n", jobs[i], i);
  }
  const Outcome first = beside(commands + "wait $seconds");
  EXPECT_EQ(read_file(path("codes")), "2\n2\n2\n");
  for (size_t i = 0; i < jobs.size(); ++i) {
    const std::string said = read_file(path(fmt::format("second{}.log", i)));
    for (const char* word : {"in use by another job", "host ", "pid ", "started 20"}) {
      EXPECT_NE(said.find(word), std::string::npos) << word << " is missing in " << said;
    }
  }
  EXPECT_EQ(first.code, 130) << first.errors;
  EXPECT_EQ(first.errors.find("warning"), std::string::npos) << first.errors;
  EXPECT_EQ(train(2, "--resume --eval-only --set output.directory=after").code, 0);
}

TEST_F(SharedFolders, ReadingTheFolderNeedsNoLock) {
  const Outcome first = beside(
      "cp -r ckpt saved && before=$(stat -c %y saved) &&\n"
      "dlrm-train config.yaml --eval-only --init-from=saved >/dev/null 2>eval.log &&\n"
      "mpirun -np 2 dlrm-train config.yaml --init-from=saved --set checkpoint.directory=a "
      "--set output.directory=a --set train.steps=2 2>init.log &&\n"
      "[ \"$before\" = \"$(stat -c %y saved)\" ]");
  EXPECT_EQ(read_file(path("code")), "0\n")
      << read_file(path("eval.log")) << read_file(path("init.log"));
  EXPECT_NE(read_file(path("eval.log")).find("only logged"), std::string::npos);
  EXPECT_EQ(first.code, 130) << first.errors;
  for (const auto& line : read_lines(path("run/metrics.jsonl"))) EXPECT_FALSE(line.contains("auc"));
}

TEST_F(FolderUse, OneFolderMayServeForCheckpointsAndOutput) {
  const Outcome outcome = train(2, "--set checkpoint.directory=run --set checkpoint.at_end=true");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_TRUE(fs::exists(path("run/step_000000040")) && fs::exists(path("run/summary.json")));
  EXPECT_FALSE(fs::exists(path("run/.dlrm-train.lock")));
}

TEST_F(FolderUse, OneOfTwoJobsStartedTogetherTrains) {
  const std::string job = "mpirun -np 2 dlrm-train " + kEndless;
  // The other job has the lock when one is refused. It is asked to stop only then.
  const Outcome outcome =
      run_command(job + "--set output.directory=a 2>a.log & first=$!\n" + job +
                      "--set output.directory=b 2>b.log & second=$!\n"
                      "wait -n -p ended $first $second; refused=$?\n"
                      "left=$((first + second - ended)); kill -USR1 $left\n"
                      "wait $left; code=$?\n"
                      "while kill -0 $left 2>/dev/null; do wait $left; code=$?; done\n"
                      "echo $refused $code",
                  folder_.path());
  EXPECT_EQ(outcome.output, "2 130\n")
      << outcome.errors << read_file(path("a.log")) << read_file(path("b.log"));
  EXPECT_EQ(train(1, "--eval-only --set output.directory=after").code, 0);
}

TEST_F(FolderUse, AfterAKillTheNextJobStartsAtOnce) {
  for (const char* launcher : {"", "mpirun -np 2 "}) {
    const Outcome outcome =
        run_command("rm -rf ckpt run\n" + std::string(launcher) + "dlrm-train " + kEndless +
                        "2>first.log & job=$!\n" + kWaitUntilItSaved +
                        "kill -9 $job\n"
                        "dlrm-train config.yaml --resume --set train.steps=200000 "
                        "--set checkpoint.every_steps=500 2>second.log & job=$!\n"
                        "for i in $(seq 1200); do grep -q 'step .*: saved' second.log && break; "
                        "kill -0 $job || break; sleep 0.05; done\n"
                        "kill -TERM $job; wait $job",
                    folder_.path());
    EXPECT_EQ(outcome.code, 130) << read_file(path("second.log"));
    EXPECT_NE(read_file(path("second.log")).find("resumed from"), std::string::npos);
  }
}

}  // namespace
}  // namespace dlrm
