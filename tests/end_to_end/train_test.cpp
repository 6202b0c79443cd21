#include <cmath>

#include "fixture.h"

namespace dlrm {
namespace {

using Training = SmallRun;

void expect_losses_alike(const std::vector<double>& a, const std::vector<double>& b,
                         double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i], b[i], tolerance * b[i]) << "step " << i + 1;
}

TEST_F(Training, TwoThreeAndEightRanksTrainAsOneDoes) {
  ASSERT_EQ(train(1, "--set output.directory=one").code, 0);
  const auto one = losses(path("one"));
  ASSERT_EQ(one.size(), 40u);
  for (const auto& [ranks, strategy] : {std::pair{2, "row"}, {3, "grid"}, {8, "auto"}}) {
    const Outcome outcome = train(
        ranks, std::string("--set output.directory=many --set sharding.strategy=") + strategy);
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    expect_losses_alike(losses(path("many")), one, 1e-5);
    const auto summary = nlohmann::json::parse(read_file(path("many/summary.json")));
    EXPECT_EQ(summary["world_size"], ranks);
    EXPECT_NEAR(
        summary["eval"]["auc"].get<double>(),
        nlohmann::json::parse(read_file(path("one/summary.json")))["eval"]["auc"].get<double>(),
        1e-3);
  }
}

class SpinLimit : public SmallRun {
 protected:
  /// GOMP_SPINCOUNT of a rank that `command` starts.
  std::string spins(const std::string& command) const {
    return run_command("export -n OMP_WAIT_POLICY\n" + command +
                           " config.yaml --overwrite --set train.steps=100000000 &\n"
                           "until [ -s run/metrics.jsonl ]; do sleep 0.02; done\n"
                           "rank=$(pgrep -P $! -x dlrm-train | head -n 1)\n"
                           "tr '\\0' '\\n' </proc/${rank:-$!}/environ | grep GOMP_SPINCOUNT\n"
                           "kill -9 $rank $(jobs -p); rm run/metrics.jsonl",
                       folder_.path())
        .output;
  }
};

TEST_F(SpinLimit, KeepsWhatTheUserSets) {
  EXPECT_EQ(spins("OMP_WAIT_POLICY=active dlrm-train"), "");
  EXPECT_EQ(spins("GOMP_SPINCOUNT=7 dlrm-train"), "GOMP_SPINCOUNT=7\n");
}

TEST_F(Training, TheRunDirectoryHoldsTheDocumentedFiles) {
  const Outcome outcome = train(2, "--profile run/trace.json");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const auto summary = nlohmann::json::parse(read_file(path("run/summary.json")));
  for (const char* key :
       {"samples_per_second", "steps", "samples", "train_loss", "eval", "world_size", "device",
        "wall_seconds", "step_ms", "stages_ms", "stages_max_ms", "data_wait_share",
        "cpu_utilization", "memory", "plan", "comm"}) {
    EXPECT_TRUE(summary.contains(key)) << key;
  }
  EXPECT_EQ(summary["device"].get<std::string>().substr(0, 3), "cpu");
  EXPECT_EQ(summary["comm"], "shared memory");
  EXPECT_GT(summary["memory"]["shared_peak_bytes"], 0);
  EXPECT_EQ(summary["steps"], 40);
  // 2000 samples are 30 batches of 65 and one of 50. 40 steps begin a second epoch.
  EXPECT_EQ(summary["samples"], 2000 + 9 * 65);
  const auto plan = nlohmann::json::parse(read_file(path("run/plan.json")));
  EXPECT_TRUE(plan.contains("shards") && plan.contains("data_parallel"));
  const auto trace = nlohmann::json::parse(read_file(path("run/trace.json")));
  std::map<std::string, int> stages;
  for (const auto& event : trace["traceEvents"]) ++stages[event["name"].get<std::string>()];
  for (const char* stage : {"data", "route", "lookup", "return", "bottom", "interact", "top",
                            "loss", "backward", "update"}) {
    EXPECT_GE(stages[stage], 80) << stage;  // 40 steps on each of 2 ranks
  }
  // The written config can be read again.
  EXPECT_EQ(train(1, "--plan-only", "run/config.yaml").code, 0);
}

TEST_F(Training, MemoryIsAtMostTablesStateAndHalfAGiBAsPlanned) {
  const Outcome outcome =
      train(1,
            "--set output.directory=big --set 'model.tables=[{name: big, rows: 2000000, dim: 16}]' "
            "--set model.embedding_dim=16 --set model.bottom_mlp=[16] --set data.source=synthetic "
            "--set data.train= --set data.test= --set train.sparse_optimizer.type=adagrad");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const auto memory = nlohmann::json::parse(read_file(path("big/summary.json")))["memory"];
  const double tables = memory["table_bytes"].get<double>();
  EXPECT_EQ(tables, 2.0 * 2000000 * 16 * 4);
  // Sanitizers take memory of their own.
  const double allowed = std::string(DLRM_SANITIZER_FLAGS).empty() ? 0x1p29 : 0x1p31;
  EXPECT_GT(memory["process_peak_bytes"].get<double>(), tables);
  EXPECT_LT(memory["process_peak_bytes"].get<double>(), tables + allowed);
}

TEST_F(Training, AFailedEvaluationAtTheEndLosesNoTraining) {
  ASSERT_EQ(run_command("/usr/bin/python3 -c \"import h5py; f = h5py.File('test.h5', 'r+'); "
                        "del f.attrs['checksum_samples']; "
                        "f['dense'][300, 2] = float('nan')\"",
                        folder_.path())
                .code,
            0);
  EXPECT_EQ(train(2, "--set checkpoint.at_end=true").code, 2);
  EXPECT_TRUE(std::filesystem::exists(path("ckpt/step_000000040")));
}

TEST_F(Training, EvalOnlyGivesTheAucOfTheEndOfTraining) {
  ASSERT_EQ(train(2, "--set checkpoint.at_end=true").code, 0);
  const auto trained = nlohmann::json::parse(read_file(path("run/summary.json")));
  const Outcome outcome = train(3, "--eval-only --set output.directory=alone");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const auto alone = nlohmann::json::parse(read_file(path("alone/summary.json")));
  EXPECT_NEAR(alone["eval"]["auc"].get<double>(), trained["eval"]["auc"].get<double>(), 1e-6);
}

TEST_F(Training, EvalOnlyKeepsTheFilesOfTheTrainingRun) {
  ASSERT_EQ(train(2, "--set checkpoint.at_end=true").code, 0);
  const auto trained = losses(path("run"));
  // An evaluation saves no checkpoint, not even the best one.
  ASSERT_EQ(train(1, "--eval-only --set data.train=gone.h5 --set checkpoint.keep_best=auc").code,
            0);
  EXPECT_FALSE(std::filesystem::is_symlink(path("ckpt/best")));
  EXPECT_EQ(losses(path("run")), trained);
  EXPECT_EQ(read_lines(path("run/metrics.jsonl")).back()["step"], 40);
  EXPECT_EQ(nlohmann::json::parse(read_file(path("run/summary.json")))["steps"], 40);
}

TEST_F(Training, InitFromLoadsOnlyTheWeights) {
  ASSERT_EQ(train(2, "--set checkpoint.at_end=true").code, 0);
  const auto first = losses(path("run"));
  const Outcome outcome = train(1,
                                "--init-from=ckpt --set checkpoint.directory=other --set "
                                "output.directory=warm --set train.steps=2");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_LT(losses(path("warm"))[0], first[0]);
  // Steps and samples are those of the new run.
  const auto summary = nlohmann::json::parse(read_file(path("warm/summary.json")));
  EXPECT_EQ(summary["steps"], 2);
  EXPECT_EQ(summary["samples"], 2 * 65);
}

TEST_F(Training, ASavedPlanCanBeReadBack) {
  ASSERT_EQ(train(3, "--set sharding.strategy=grid").code, 0);
  const auto one = losses(path("run"));
  const Outcome outcome =
      train(3, "--set sharding.plan=run/plan.json --set output.directory=again");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(losses(path("again")), one);
}

TEST_F(Training, SyntheticDataAndReplayTrain) {
  EXPECT_EQ(train(2, "--set data.source=synthetic --set data.train=").code, 0);
  const Outcome outcome = train(2, "--set data.source=replay --set train.steps=60");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const auto replay = losses(path("run"));
  EXPECT_LT(replay.back(), replay.front());  // the model memorises the one batch
}

}  // namespace
}  // namespace dlrm
