// Output that cannot be written. A limit on the size of files, which prlimit changes while the job
// runs, stands for a full disk.
#include "fixture.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;

/// An endless job that saves often. Steps of a test wait for what the log says.
class LostOutput : public SmallRun {
 protected:
  /// Starts the job on `ranks` ranks and waits for its first checkpoint, runs `then`, ends the job
  /// by SIGUSR1, and returns its exit code and log.
  Outcome during(int ranks, const std::string& then) const {
    const std::string start = ranks == 1 ? "" : "mpirun -np " + std::to_string(ranks) + " ";
    return run_command(
        // The log goes through a pipe, which has no such limit.
        "told() { for i in $(seq 1200); do [ $(grep -c \"$1\" log) -ge $2 ] && return; "
        "sleep 0.05; done; echo \"never told: $1\" >>log; }\n" +
            start +
            "dlrm-train config.yaml --set train.steps=100000000 --set eval.at_end=false "
            "--set checkpoint.every_steps=200 --set output.metrics_every=50 2> >(cat >log) & "
            "job=$!\n"
            "told 'saved in' 1\n" +
            then +
            "\nkill -USR1 $job\nwait $job; code=$?\n"
            "while kill -0 $job 2>/dev/null; do wait $job; code=$?; done\n"
            "told 'error: \\|stopped on request' 1\ncat log >&2\nexit "
            "$code\n",
        folder_.path());
  }
  static size_t times(const std::string& text, const std::string& part) {
    size_t found = 0;
    for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
    return found;
  }
  std::vector<std::string> checkpoints() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path("ckpt"))) {
      names.push_back(entry.path().filename());
    }
    return names;
  }
};

constexpr const char* kFull = "prlimit --pid $job --fsize=100:unlimited\n";

TEST_F(LostOutput, AFullDiskIsSaidOnceAndCostsTheNewestCheckpointsOnly) {
  const Outcome outcome = during(1, std::string(kFull) +
                                        "told 'not saved' 1; told 'metrics.jsonl: cannot' 1\n"
                                        "ls -d ckpt/step_* | sort | tail -1 >last; sleep 1");
  EXPECT_EQ(outcome.code, 3) << outcome.errors;
  EXPECT_EQ(times(outcome.errors, "warning: "), 2u) << outcome.errors;
  EXPECT_GE(times(outcome.errors, "File too large"), 3u) << outcome.errors;
  const std::string error = error_line(outcome);
  for (const char* part : {"output was lost", "no checkpoint: ", "metrics.jsonl lacks lines"}) {
    EXPECT_NE(error.find(part), std::string::npos) << part << " is missing in: " << error;
  }
  for (const std::string& name : checkpoints())
    EXPECT_EQ(name.rfind(".tmp_", 0), std::string::npos);
  const std::string last = read_file(path("last"));
  const Outcome evaluated = train(1, "--eval-only --set output.directory=after");
  EXPECT_EQ(evaluated.code, 0) << evaluated.errors;
  EXPECT_NE(evaluated.errors.find(last.substr(0, last.size() - 1)), std::string::npos);
}

TEST_F(LostOutput, NothingIsLostIfTheDiskHasRoomAgain) {
  const Outcome outcome =
      during(1, std::string(kFull) +
                    "told 'not saved' 1; told 'metrics.jsonl: cannot' 1\n"
                    "saved=$(grep -c 'saved in' log)\n"
                    "prlimit --pid $job --fsize=unlimited\n"
                    "told 'saved in' $((saved + 2)); told 'can be written again' 1");
  EXPECT_EQ(outcome.code, 130) << outcome.errors;
  int64_t step = 0;
  for (const auto& line : read_lines(path("run/metrics.jsonl"))) {
    EXPECT_TRUE(line["step"] == step + 50 || (line["step"] == 1 && step == 0) || step == 1 ||
                line["step"].get<int64_t>() % 50 != 0)
        << line;
    step = line["step"];
  }
  const auto summary = nlohmann::json::parse(read_file(path("run/summary.json")));
  EXPECT_GE(summary["failed_checkpoints"], 1);
  EXPECT_FALSE(summary.contains("lost_output"));
}

TEST_F(LostOutput, ARankThatCannotWriteItsPartIsNoEndOfTraining) {
  const Outcome outcome = during(2,
                                 "prlimit --pid $(pgrep -n -P $job dlrm-train) "
                                 "--fsize=100:unlimited\ntold 'not saved' 1");
  EXPECT_EQ(outcome.code, 3) << outcome.errors;
  EXPECT_NE(error_line(outcome).find("rank_00001.h5"), std::string::npos) << outcome.errors;
  EXPECT_EQ(train(2, "--eval-only --set output.directory=after").code, 0);
  const auto summary = nlohmann::json::parse(read_file(path("run/summary.json")));
  EXPECT_NE(summary["lost_output"].get<std::string>().find("File too large"), std::string::npos);
}

TEST_F(LostOutput, ADeletedRunDirectoryIsNoticedAtTheNextLineAndTrainingGoesOn) {
  const Outcome outcome = during(1,
                                 "rm -r run; told 'metrics.jsonl: cannot' 1\n"
                                 "told 'saved in' $(($(grep -c 'saved in' log) + 1))");
  EXPECT_EQ(outcome.code, 3) << outcome.errors;
  EXPECT_EQ(times(outcome.errors, "warning: "), 1u) << outcome.errors;
  EXPECT_NE(outcome.errors.find("metrics.jsonl: cannot be written: No such file or directory"),
            std::string::npos);
  const std::string error = error_line(outcome);
  for (const char* part : {"metrics.jsonl lacks lines: those before it was deleted", "summary.json",
                           "No such file or directory"}) {
    EXPECT_NE(error.find(part), std::string::npos) << part << " is missing in: " << error;
  }
  EXPECT_EQ(error.find("no checkpoint"), std::string::npos) << error;
  EXPECT_EQ(train(1, "--eval-only --set output.directory=after").code, 0);
}

TEST_F(LostOutput, ADeletedCheckpointFolderIsMadeAgain) {
  const Outcome outcome =
      during(1, "rm -r ckpt; told 'saved in' $(($(grep -c 'saved in' log) + 1)); ls ckpt >made");
  EXPECT_EQ(outcome.code, 130) << outcome.errors;
  EXPECT_NE(read_file(path("made")).find("step_"), std::string::npos);
  EXPECT_EQ(train(1, "--eval-only --set output.directory=after").code, 0);
}

}  // namespace
}  // namespace dlrm
