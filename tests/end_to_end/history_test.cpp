// The history of a run: its metrics over stops and resumes, its best checkpoint, its end.
#include <gmock/gmock.h>

#include "fixture.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using History = SmallRun;

/// The lines of metrics.jsonl without the fields that depend on the clock.
std::vector<json> history(const std::string& run) {
  std::vector<json> lines = read_lines(run + "/metrics.jsonl");
  for (json& line : lines) {
    line.erase("time");
    line.erase("samples_per_second");
  }
  return lines;
}

std::vector<int64_t> evaluated_steps(const std::string& run) {
  std::vector<int64_t> steps;
  for (const json& line : history(run)) {
    if (line.contains("auc")) steps.push_back(line["step"]);
  }
  return steps;
}

TEST_F(History, StopsAndResumesLeaveTheMetricsOfAnUninterruptedRun) {
  for (const std::string every : {"--set eval.every_steps=1 --set output.metrics_every=7 ",
                                  "--set eval.every_steps=50 --set output.metrics_every=2 "}) {
    const std::string options = every + "--set train.steps=300 ";
    ASSERT_EQ(train(1, options + "--overwrite --set output.directory=whole --set "
                                 "checkpoint.directory=whole_ckpt")
                  .code,
              0);
    // Stops the run as soon as its log contains a word.
    write_file(path("stop.sh"), R"sh(
word=$1; shift
mkfifo errors 2>/dev/null
dlrm-train config.yaml "$@" 2>errors & job=$!
while read -r line; do
  [[ $line != *"$word"* ]] || kill -USR1 $job
done <errors
wait $job
)sh");
    int stopped = 0;
    for (const char* part : {"'training on' --overwrite ", "'resumed from' --resume ",
                             "' AUC' --resume ", "'step 2' --resume "}) {
      const Outcome outcome = run_command("bash stop.sh " + std::string(part) + options, path(""));
      stopped += outcome.code == 130;
      ASSERT_TRUE(outcome.code == 130 || outcome.code == 0) << outcome.code << outcome.errors;
    }
    EXPECT_GE(stopped, 2);
    ASSERT_EQ(train(1, "--resume --set checkpoint.at_end=true " + options).code, 0);
    EXPECT_EQ(history(path("run")), history(path("whole")));
    // After the end there is nothing to add.
    ASSERT_EQ(train(1, "--resume " + options).code, 0);
    EXPECT_EQ(history(path("run")), history(path("whole")));
  }
}

TEST_F(History, TheBestCheckpointIsKept) {
  const std::string options =
      "--set eval.every_steps=4 --set checkpoint.keep=1 --set checkpoint.every_steps=10 "
      "--set train.dense_optimizer.lr=2 --set checkpoint.keep_best=log_loss ";
  for (const int ranks : {1, 2}) {
    const Outcome outcome = train(ranks, "--overwrite " + options);
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    int64_t best = 0;
    double least = 1e9;
    for (const json& line : history(path("run"))) {
      if (!line.contains("auc") || line["log_loss"].is_null()) continue;
      const double loss = line["log_loss"];
      if (loss < least) best = line["step"];
      least = std::min(least, loss);
    }
    const std::string name = fmt::format("step_{:09}", best);
    EXPECT_EQ(fs::read_symlink(path("ckpt/best")), name);
    EXPECT_TRUE(fs::exists(path("ckpt/best/index.h5")));
    size_t folders = 0;
    for (const auto& entry : fs::directory_iterator(path("ckpt"))) {
      folders += entry.path().filename().string().rfind("step_", 0) == 0;
    }
    EXPECT_EQ(folders, best == 40 ? 1u : 2u);
    const json summary = json::parse(read_file(path("run/summary.json")));
    EXPECT_EQ(summary["best_eval"]["step"], best);
    EXPECT_NEAR(summary["best_eval"]["log_loss"].get<double>(), least, 1e-8);
    const Outcome again =
        train(1, "--eval-only --init-from=ckpt/best --set output.directory=again");
    ASSERT_EQ(again.code, 0) << again.errors;
    EXPECT_EQ(history(path("again"))[0]["log_loss"], least);
    fs::remove_all(path("again"));
  }
  // Started afresh, nothing of it remains.
  ASSERT_EQ(train(1, "--overwrite --set train.steps=2").code, 0);
  EXPECT_FALSE(fs::is_symlink(path("ckpt/best")));
}

TEST_F(History, ValidationDataChoosesTheWeightsThatTheTestDataIsEvaluatedWith) {
  const std::string options =
      "--set data.valid=test.h5 --set data.test=train.h5 --set eval.every_epochs=0.1 "
      "--set train.dense_optimizer.lr=2 --set checkpoint.keep_best=log_loss ";
  for (const int ranks : {1, 2}) {
    const Outcome outcome = train(ranks, "--overwrite " + options);
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    const json summary = json::parse(read_file(path("run/summary.json")));
    const int64_t best = summary["best_eval"]["step"];
    EXPECT_LT(best, 40);
    EXPECT_EQ(summary["eval"]["step"], 40);
    EXPECT_EQ(summary["eval"]["samples"], 501);
    EXPECT_EQ(summary["test"]["step"], best);
    std::vector<json> tested;
    for (const json& line : history(path("run"))) {
      if (line.value("split", "") == "test") tested.push_back(line);
    }
    ASSERT_EQ(tested.size(), 1u);
    EXPECT_EQ(tested[0]["step"], best);
    // An evaluation alone takes the best weights too.
    const Outcome again = train(1, "--eval-only --set output.directory=again " + options);
    ASSERT_EQ(again.code, 0) << again.errors;
    const json line = history(path("again"))[0];
    EXPECT_EQ(line["step"], best);
    EXPECT_NEAR(line["log_loss"].get<double>(), tested[0]["log_loss"].get<double>(), 1e-7);
    fs::remove_all(path("again"));
    // A resume drops the line of the test data, which was not evaluated by then.
    ASSERT_EQ(train(1, "--resume --set train.steps=50 --set eval.at_end=false " + options).code, 0);
    for (const json& kept : history(path("run"))) EXPECT_NE(kept.value("split", ""), "test");
  }
}

TEST_F(History, TheBestEvaluationOutlivesAResume) {
  const std::string options =
      "--set eval.every_steps=10 --set checkpoint.every_steps=20 --set checkpoint.keep_best=auc ";
  ASSERT_EQ(train(1, options + "--set output.directory=whole --set checkpoint.directory=w").code,
            0);
  ASSERT_EQ(train(1, options + "--set train.steps=20").code, 0);
  // A checkpoint of a step that was not reached again takes its link with it.
  fs::copy(path("ckpt/step_000000020"), path("ckpt/step_000000021"), fs::copy_options::recursive);
  ASSERT_EQ(train(2, "--resume=ckpt/step_000000020 " + options).code, 0);
  const auto best = [&](const std::string& run) {
    return json::parse(read_file(path(run + "/summary.json")))["best_eval"]["step"];
  };
  EXPECT_EQ(best("run"), best("whole"));
  EXPECT_FALSE(fs::exists(path("ckpt/step_000000021")));
  EXPECT_TRUE(fs::exists(path("ckpt/best/index.h5")));
}

TEST_F(History, TrainingEndsWhenPatienceDoes) {
  const std::string options =
      "--set train.dense_optimizer.lr=0 --set train.sparse_optimizer.lr=0 "
      "--set eval.every_steps=5 --set eval.patience=2 --set checkpoint.at_end=true ";
  const Outcome outcome = train(2, options);
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("eval.patience"));
  EXPECT_EQ(evaluated_steps(path("run")), (std::vector<int64_t>{5, 10, 15}));
  const auto before = history(path("run"));
  ASSERT_EQ(train(1, "--resume " + options).code, 0);
  EXPECT_EQ(history(path("run")), before);
}

TEST_F(History, TheSummaryDescribesProgramHostAndTime) {
  ASSERT_EQ(train(2, "--set train.steps=2").code, 0);
  const json summary = json::parse(read_file(path("run/summary.json")));
  EXPECT_THAT(summary["command"].get<std::string>(),
              ::testing::EndsWith("dlrm-train config.yaml --set train.steps=2"));
  EXPECT_THAT(summary["started"].get<std::string>(),
              ::testing::MatchesRegex("20..-..-..T..:..:..Z"));
  EXPECT_LE(summary["started"], summary["ended"]);
  EXPECT_FALSE(summary["host"].get<std::string>().empty());
  EXPECT_THAT(summary["version"].get<std::string>(), ::testing::MatchesRegex("[0-9]+[.].*"));
}

TEST_F(History, MpirunOnATerminalShowsTheLiveLine) {
  const auto typescript = [&](const std::string& options) {
    const Outcome outcome = run_command(
        "script -qec 'mpirun " + options + " -np 2 --oversubscribe dlrm-train config.yaml' text",
        path(""));
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    return read_file(path("text"));
  };
  EXPECT_THAT(typescript(""), HasSubstr("\rstep 40/40  epoch 1."));
  EXPECT_THAT(typescript("--tag-output"), ::testing::Not(HasSubstr("\rstep 40/40")));
}

}  // namespace
}  // namespace dlrm
