#include "train/training_run.h"

#include <cmath>
#include <filesystem>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/comm/world.h"
#include "dlrm/train/checkpoint.h"
#include "dlrm/train/execution.h"

#include "checkpoint_tensors.h"
#include "small_run.h"

namespace dlrm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// 50 odd samples an epoch, in batches of 22. Notes which batches were loaded.
class OddSource final : public BatchSource {
 public:
  explicit OddSource(const RunConfig& config) : config_(config) {}
  const BatchPlan& plan() const override { return plan_; }
  void load(int64_t t, Batch& batch) const override {
    batch = odd_batch(config_, t, 0, 1);
    const std::lock_guard lock(mutex_);
    loaded.push_back(t);
  }
  std::string describe() const override { return "odd"; }

  mutable std::vector<int64_t> loaded;

 private:
  const RunConfig& config_;
  const BatchPlan plan_{50, 22};
  mutable std::mutex mutex_;
};

/// Batches of row 0 alone, and from batch 4 on of many rows.
class GrowingSource final : public BatchSource {
 public:
  explicit GrowingSource(const RunConfig& config) : odd_(config) {}
  const BatchPlan& plan() const override { return odd_.plan(); }
  void load(int64_t t, Batch& batch) const override {
    odd_.load(t, batch);
    if (t < 4) std::fill(batch.ids.begin(), batch.ids.end(), 0);
  }
  std::string describe() const override { return "growing"; }

 private:
  OddSource odd_;
};

/// A run of one rank with folders of its own.
class OneRun : public ::testing::Test {
 protected:
  OneRun() {
    if (cuda_device_count() > 0) config_.device = DeviceKind::kCuda;
    config_.checkpoint.directory = folder_.path("ckpt");
    config_.output.directory = folder_.path("run");
    config_.data.workers = 1;
  }
  void SetUp() override { begin(source_); }
  void begin(const BatchSource& source) {
    run_.reset();
    trainer_.reset();
    ops_.reset();
    context_.reset();
    execution_ = std::make_unique<Execution>(world_.comm(), config_, machine_share(world_.comm()));
    context_ = std::make_unique<Context>(execution_->context(trace_, log_));
    ops_ = execution_->make_ops(1, false);
    trainer_ = std::make_unique<Trainer>(*context_, *ops_, config_, plan_, true);
    run_ = std::make_unique<TrainingRun>(*context_, world_, locks_, config_, plan_, *trainer_,
                                         directory_, source, nullptr, evaluations_, 1);
    directory_.start("", "");
  }

  void fill_tables(float value) {
    for (const TensorShard& shard : trainer_->shards()) {
      if (!shard.path.starts_with("/tables/") || !shard.path.ends_with("/weight")) continue;
      const std::vector<float> values(static_cast<size_t>(shard.rows.size() * shard.columns.size()),
                                      value);
      shard.write(0, shard.rows.size(), values.data());
    }
  }
  /// Step 1 is refused because something of it is not finite.
  void expect_not_saved() {
    RunProgress progress;
    progress.step = 1;
    try {
      run_->save(progress);
      ADD_FAILURE() << "saved";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("not finite"));
    }
    EXPECT_FALSE(std::filesystem::exists(folder_.path("ckpt/step_000000001")));
  }

  testing::TemporaryFolder folder_;
  World world_{nullptr, nullptr};
  JobLocks locks_{world_.comm()};
  EvaluationHistory evaluations_{BestMetric::kNone};
  RunConfig config_ = odd_model();
  Plan plan_ = make_plan(config_, 1);
  Trace trace_;
  Log log_;
  OddSource source_{config_};
  StopSignal stop_;
  RunDirectory directory_{world_.comm(), folder_.path("run")};
  std::unique_ptr<Execution> execution_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<TrainingRun> run_;
};

TEST_F(OneRun, ResumedInALaterEpochGoesOnWithThatEpochsBatches) {
  RunProgress progress;
  progress.step = 4;
  progress.samples = 72;
  run_->train(progress, 7, stop_);
  EXPECT_THAT(source_.loaded, ElementsAre(4, 5, 6));
  EXPECT_EQ(progress.step, 7);
  EXPECT_EQ(progress.samples, 72 + 22 + 18 + 22);
}

TEST_F(OneRun, SavesItsPlaceInTheEpoch) {
  RunProgress progress;
  progress.step = 7;
  progress.samples = 144;
  run_->save(progress);
  const CheckpointState state = open_checkpoint(world_.comm(), folder_.path("ckpt/step_000000007"));
  EXPECT_EQ(state.step, 7);
  EXPECT_EQ(state.samples, 144);
  EXPECT_EQ(state.epoch, 2);
  EXPECT_EQ(state.batch, 1);
}

TEST_F(OneRun, SavesTheStepsBeforeABatchThatDoesNotFitTheCache) {
  config_.device = DeviceKind::kCpu;
  for (Shard& shard : plan_.shards) shard.tier = MemoryTier::kCached;
  config_.memory.cached.backing = "host";
  config_.memory.cached.fast = "1KiB";
  const GrowingSource source(config_);
  begin(source);
  RunProgress progress;
  try {
    run_->train(progress, 9, stop_);
    ADD_FAILURE() << "a batch of many rows fits 1 KiB";
  } catch (const RowsDoNotFit& error) {
    EXPECT_EQ(error.code(), ExitCode::kFailure);
    EXPECT_THAT(error.what(), HasSubstr("memory.cached.fast: too small"));
    EXPECT_THAT(error.what(), HasSubstr("KiB would do"));
  }
  EXPECT_EQ(progress.step, 4);
  EXPECT_EQ(open_checkpoint(world_.comm(), folder_.path("ckpt/step_000000004")).step, 4);
}

TEST_F(OneRun, DoesNotStartIfABatchOfTheFirstWindowDoesNotFitTheCache) {
  config_.device = DeviceKind::kCpu;
  for (Shard& shard : plan_.shards) shard.tier = MemoryTier::kCached;
  config_.memory.tier = MemoryTier::kCached;
  config_.memory.cached.backing = "host";
  config_.memory.cached.fast = "1KiB";
  config_.memory.cached.window = 5;
  const GrowingSource source(config_);
  begin(source);
  RunProgress progress;
  try {
    run_->train(progress, 9, stop_);
    ADD_FAILURE() << "a batch of many rows fits 1 KiB";
  } catch (const RowsDoNotFit& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
  }
  EXPECT_EQ(progress.step, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_.path("ckpt")));
}

TEST_F(OneRun, DoesNotSaveWeightsAfterAnUpdateThatWasNotFinite) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "a CPU shows it in the loss";
  trainer_->route(odd_batch(config_, 0, 0, 1));
  fill_tables(std::nanf(""));
  ASSERT_TRUE(std::isfinite(trainer_->step(0, false).loss));
  expect_not_saved();
}

TEST_F(OneRun, DoesNotSaveFiniteWeightsThatLackAnUpdate) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "a CPU shows it in the loss";
  trainer_->route(odd_batch(config_, 0, 0, 1));
  fill_tables(std::nanf(""));
  ASSERT_TRUE(std::isfinite(trainer_->step(0, false).loss));
  fill_tables(0);
  expect_not_saved();
}

}  // namespace
}  // namespace dlrm
