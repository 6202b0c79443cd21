#include <algorithm>

#include "fixture.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;

using Resuming = SmallRun;

std::string kSave = "--set checkpoint.every_steps=10 --set checkpoint.keep=9 ";

/// Compares the tensors of two checkpoints bitwise, read whole by h5py. For each of `ends`, some
/// tensor's name must end in it.
Outcome compare_checkpoints(const fs::path& where, const std::string& a, const std::string& b,
                            const std::string& ends = "weight") {
  write_file(where / "compare.py", R"(
import sys, h5py, numpy as np
a, b = (h5py.File(p + "/index.h5", "r") for p in sys.argv[1:3])
names = []
a.visititems(lambda n, o: names.append(n) if isinstance(o, h5py.Dataset) and n.split("/")[0] != "layout" else None)
assert len(names) >= 10, names
assert all(any(n.endswith(end) for n in names) for end in sys.argv[3:]), names
for n in names:
    x, y = a[n][()], b[n][()]
    assert x.dtype == y.dtype and not np.isnan(x).any(), n
    assert x.tobytes() == y.tobytes(), n
)");
  return run_command("/usr/bin/python3 compare.py " + a + " " + b + " " + ends, where);
}

TEST_F(Resuming, AResumedRunIsBitwiseTheUninterruptedRun) {
  const std::vector<std::pair<const char*, const char*>> optimizers{
      {"sparse_optimizer.type=rowwise_adagrad", "/adagrad"},
      {"sparse_optimizer.type=adam --set train.dense_optimizer.type=lamb",
       "/adam_m /adam_v /weight_lamb_m /bias_lamb_v"},
      {"sparse_optimizer.type=adagrad --set model.tables.big.dtype=bf16 "
       "--set model.tables.tiny.dtype=bf16",
       "/adagrad"}};
  for (const auto& [optimizer, state] : optimizers) {
    const std::string rule = std::string("--overwrite --set train.") + optimizer + " ";
    ASSERT_EQ(
        train(2, rule + kSave + "--set checkpoint.directory=whole --set output.directory=whole_run")
            .code,
        0);
    ASSERT_EQ(train(2, rule + kSave + "--set train.steps=20").code, 0);
    const Outcome resumed =
        train(2, std::string("--resume --set train.") + optimizer + " " + kSave);
    ASSERT_EQ(resumed.code, 0) << resumed.errors;
    EXPECT_EQ(losses(path("run")), losses(path("whole_run")));
    const Outcome same =
        compare_checkpoints(folder_.path(), "whole/step_000000040", "ckpt/step_000000040", state);
    EXPECT_EQ(same.code, 0) << optimizer << same.errors;
  }
}

TEST_F(Resuming, InBf16ARunResumedInItsSecondEpochIsBitwiseTheRunNotInterrupted) {
  const std::string save =
      "--set train.precision=bf16 --set checkpoint.every_steps=34 "
      "--set checkpoint.at_end=true --set checkpoint.keep=9 ";
  ASSERT_EQ(
      train(1, save + "--set checkpoint.directory=whole --set output.directory=whole_run").code, 0);
  ASSERT_EQ(train(1, save + "--set train.steps=34").code, 0);
  const Outcome resumed = train(1, "--resume " + save);
  ASSERT_EQ(resumed.code, 0) << resumed.errors;
  EXPECT_EQ(losses(path("run")), losses(path("whole_run")));
  const Outcome same =
      compare_checkpoints(folder_.path(), "whole/step_000000040", "ckpt/step_000000040");
  EXPECT_EQ(same.code, 0) << same.errors;
  // An epoch is 30 batches of 65 samples and one of 50.
  for (const char* run : {"whole_run", "run"}) {
    const auto summary = nlohmann::json::parse(read_file(path(run + std::string("/summary.json"))));
    EXPECT_EQ(summary["samples"], 2000 + 9 * 65) << run;
    EXPECT_EQ(summary["eval"]["samples"], 501) << run;
  }
}

TEST_F(Resuming, ACheckpointResumesOntoAnyWorldAndPlan) {
  ASSERT_EQ(
      train(2, kSave + "--set checkpoint.directory=whole --set output.directory=whole_run").code,
      0);
  const auto whole = losses(path("whole_run"));
  ASSERT_EQ(train(2, kSave + "--set train.steps=20").code, 0);
  for (const auto& [ranks, strategy] : {std::pair{1, "auto"}, {3, "row"}, {4, "grid"}}) {
    const Outcome resumed = train(
        ranks, "--resume=ckpt/step_000000020 " + kSave + "--set sharding.strategy=" + strategy);
    ASSERT_EQ(resumed.code, 0) << resumed.errors;
    const auto mine = losses(path("run"));
    ASSERT_EQ(mine.size(), whole.size());
    for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(mine[i], whole[i], 1e-5 * whole[i]);
  }
}

TEST_F(Resuming, ANewRunInAFolderWithCheckpointsIsRefused) {
  ASSERT_EQ(train(1, kSave).code, 0);
  const Outcome outcome = train(2, kSave);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(error_line(outcome).find("--overwrite"), std::string::npos) << outcome.errors;
  EXPECT_EQ(train(2, "--overwrite --set train.steps=5").code, 0);
  EXPECT_FALSE(fs::exists(path("ckpt/step_000000010")));
}

TEST_F(Resuming, OverwritingNothingMakesNoFolderOfCheckpoints) {
  ASSERT_EQ(train(1, "--overwrite --set train.steps=2 --set checkpoint.directory=none").code, 0);
  EXPECT_FALSE(fs::exists(path("none")));
}

TEST_F(Resuming, ResumingWithAnotherModelNamesTheKey) {
  ASSERT_EQ(train(1, kSave).code, 0);
  const Outcome outcome = train(1, "--resume --set train.seed=5");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(error_line(outcome).find("train.seed"), std::string::npos) << outcome.errors;
}

/// The position in the data would mean nothing.
TEST_F(Resuming, ResumingOnDataWithAnotherNumberOfSamplesIsRefused) {
  ASSERT_EQ(train(1, "--set checkpoint.at_end=true --set train.steps=10").code, 0);
  fs::rename(path("train.h5"), path("moved.h5"));
  fs::copy_file(path("test.h5"), path("train.h5"));
  const auto before = losses(path("run"));
  for (const int ranks : {1, 2}) {
    const Outcome other = train(ranks, "--resume");
    EXPECT_EQ(other.code, 2);
    EXPECT_NE(error_line(other).find("2000"), std::string::npos) << other.errors;
    EXPECT_NE(error_line(other).find("--init-from"), std::string::npos) << other.errors;
  }
  EXPECT_EQ(losses(path("run")), before);
  const Outcome moved = train(1, "--resume --set data.train=moved.h5");
  EXPECT_EQ(moved.code, 0) << moved.errors;
  EXPECT_NE(moved.errors.find("warning: data.train is not that of"), std::string::npos)
      << moved.errors;
}

TEST_F(Resuming, ResumingWithoutACheckpointStartsANewRunAndLogsIt) {
  const Outcome outcome = train(2, "--resume");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.errors.find("starting anew"), std::string::npos);
}

TEST_F(Resuming, OverwritingTheCheckpointThatIsStartedFromLosesNothing) {
  ASSERT_EQ(train(1, kSave).code, 0);
  EXPECT_EQ(train(1, "--init-from=ckpt").code, 2);
  const auto before = losses(path("run"));
  ASSERT_EQ(train(1, "--init-from=ckpt --overwrite --set train.steps=2").code, 0);
  EXPECT_LT(losses(path("run"))[0], before[0]);
}

TEST_F(Resuming, TheNamedCheckpointIsContinuedInAnotherFolder) {
  ASSERT_EQ(train(1, kSave + "--set train.steps=20").code, 0);
  const Outcome elsewhere = train(
      1, "--resume=ckpt/step_000000010 --set train.steps=12 --set checkpoint.directory=other");
  ASSERT_EQ(elsewhere.code, 0) << elsewhere.errors;
  EXPECT_NE(elsewhere.errors.find("resumed from ckpt/step_000000010"), std::string::npos)
      << elsewhere.errors;
}

TEST_F(Resuming, ResumePrecedesInitFromIfACheckpointExists) {
  ASSERT_EQ(train(1, kSave + "--set train.steps=20").code, 0);
  ASSERT_EQ(
      train(1, kSave +
                   "--set checkpoint.directory=warm --set train.steps=10 --init-from=ckpt --resume")
          .code,
      0);
  const Outcome again = train(
      1, kSave + "--set checkpoint.directory=warm --set train.steps=20 --init-from=ckpt --resume");
  ASSERT_EQ(again.code, 0) << again.errors;
  EXPECT_NE(again.errors.find("resumed from warm/step_000000010"), std::string::npos)
      << again.errors;
}

TEST_F(Resuming, ADamagedCheckpointIsSkipped) {
  ASSERT_EQ(train(2, kSave + "--set train.steps=20").code, 0);
  fs::resize_file(path("ckpt/step_000000020/rank_00001.h5"), 100);
  const Outcome outcome = train(2, "--resume " + kSave);
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(outcome.errors.find("step 10"), std::string::npos) << outcome.errors;
  EXPECT_EQ(losses(path("run")).size(), 40u);
}

TEST_F(Resuming, KillingARankCostsNoMoreThanTheStepsSinceTheLastCheckpoint) {
  run_command(
      "mpirun -np 2 dlrm-train config.yaml --set train.steps=100000000 --set eval.at_end=false "
      "--set checkpoint.every_steps=10 & job=$!\n"
      "for i in $(seq 1200); do ls -d ckpt/step_* >/dev/null 2>&1 && break; sleep 0.05; done\n"
      "pkill -9 -n -P $job dlrm-train; wait",
      folder_.path());
  const std::string logged = read_file(path("run/metrics.jsonl"));
  const int64_t done = std::count(logged.begin(), logged.end(), '\n');
  const Outcome evaluated = train(1, "--eval-only --set output.directory=after");
  EXPECT_EQ(evaluated.code, 0) << evaluated.errors;

  // Runs ten more steps from the checkpoint that is left. Compares with a run that was not killed.
  int64_t saved = 0;
  for (const auto& entry : fs::directory_iterator(path("ckpt"))) {
    const std::string name = entry.path().filename();
    if (name.starts_with("step_")) saved = std::max<int64_t>(saved, std::stoll(name.substr(5)));
  }
  EXPECT_GT(saved, 0);
  EXPECT_LE(done - saved, 10);
  const std::string steps = "--set train.steps=" + std::to_string(saved + 10) + " ";
  const Outcome resumed = train(2, "--resume " + steps);
  ASSERT_EQ(resumed.code, 0) << resumed.errors;
  ASSERT_EQ(
      train(2, steps + "--set checkpoint.directory=whole --set output.directory=whole_run").code,
      0);
  EXPECT_EQ(losses(path("run")), losses(path("whole_run")));
}

}  // namespace
}  // namespace dlrm
