#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/comm/world.h"
#include "dlrm/train/checkpoint.h"
#include "dlrm/train/execution.h"

#include "checkpoint_tensors.h"
#include "error_of.h"
#include "small_run.h"
#include "train/run/training_run.h"

namespace dlrm {

/// 50 odd samples an epoch, in batches of 22. Notes which batches were loaded.
class OddSource final : public BatchSource {
 public:
  explicit OddSource(const RunConfig& config, int rank = 0, int world = 1)
      : config_(config), rank_(rank), world_(world) {}
  const BatchPlan& plan() const override { return plan_; }
  void load(int64_t t, Batch& batch) const override {
    batch = odd_batch(config_, t, rank_, world_);
    const std::lock_guard lock(mutex_);
    loaded.push_back(t);
  }
  void will_need(int64_t t) const override {
    const std::lock_guard lock(mutex_);
    announced.push_back(t);
  }
  std::string describe() const override { return "odd"; }

  mutable std::vector<int64_t> loaded, announced;

 private:
  const RunConfig& config_;
  const int rank_, world_;
  const BatchPlan plan_{50, 22};
  mutable std::mutex mutex_;
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
    make_run(source, nullptr);
    directory_.start("", "");
  }
  /// A run of the same trainer that takes the place of the one before.
  void make_run(const BatchSource& source, const BatchSource* test, int threads = 1) {
    run_ = std::make_unique<TrainingRun>(RunParts{*context_, world_, locks_, config_, plan_,
                                                  *trainer_, directory_, source, nullptr, test,
                                                  evaluations_, threads});
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
    EXPECT_THAT(error_of([&] { run_->save(progress); }), ::testing::HasSubstr("not finite"));
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

}  // namespace dlrm
