#include "train/run/training_run.h"

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "train/one_run.h"

namespace dlrm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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

TEST_F(OneRun, ResumedInALaterEpochGoesOnWithThatEpochsBatches) {
  RunProgress progress;
  progress.step = 4;
  progress.samples = 72;
  run_->train(progress, 7, stop_);
  EXPECT_THAT(source_.loaded, ElementsAre(4, 5, 6));
  EXPECT_EQ(source_.announced, source_.loaded);
  EXPECT_EQ(progress.step, 7);
  EXPECT_EQ(progress.samples, 72 + 22 + 18 + 22);
}

TEST_F(OneRun, StoppedDuringAnEvaluationHasNoResult) {
  make_run(source_, &source_);
  ASSERT_GT(config_.routing.depth, 0);
  std::raise(SIGUSR1);
  RunProgress progress;
  progress.step = 2;
  EXPECT_FALSE(run_->evaluate_now(progress, stop_));
  EXPECT_TRUE(progress.stopped);
  EXPECT_FALSE(evaluations_.has(2));
  EXPECT_EQ(trainer_->routed(), 0);
  // Nothing of the batches that were routed is left.
  trainer_->route(odd_batch(config_, 4, 0, 1));
  const double loss = trainer_->step(0, false).loss;
  begin(source_);
  trainer_->route(odd_batch(config_, 4, 0, 1));
  EXPECT_EQ(trainer_->step(0, false).loss, loss);
}

TEST_F(OneRun, EvaluatesAStepOnce) {
  make_run(source_, &source_);
  RunProgress progress;
  progress.step = 2;
  std::vector<std::string> stages;
  const bool auc = run_->evaluate_now(
      progress, stop_,
      [&](int64_t, View<const float>, View<const float>) { stages.push_back(trace_.current()); });
  EXPECT_THAT(stages, ElementsAre("evaluate", "evaluate", "evaluate"));
  EXPECT_FALSE(progress.stopped);
  ASSERT_TRUE(evaluations_.has(2));
  EXPECT_GT(evaluations_.last()->result.samples, 0);
  EXPECT_EQ(auc, evaluations_.last()->result.auc.has_value());
  const auto loaded = source_.loaded.size();
  EXPECT_FALSE(run_->evaluate_now(progress, stop_));
  EXPECT_EQ(source_.loaded.size(), loaded);
}

/// Steps of the lines of metrics.jsonl with this key.
std::vector<int64_t> steps_with(const std::string& path, const char* key) {
  std::ifstream file(path);
  std::vector<int64_t> steps;
  for (std::string line; std::getline(file, line);) {
    const auto object = nlohmann::json::parse(line);
    if (object.contains(key)) steps.push_back(object["step"].get<int64_t>());
  }
  return steps;
}

TEST_F(OneRun, EvaluatesAndSavesWhenItIsDue) {
  config_.eval.every_steps = 2;
  config_.checkpoint.every_steps = 3;
  config_.checkpoint.keep = 9;
  config_.routing.depth = 3;
  config_.output.metrics_every = 4;
  begin(source_);
  const OddSource test(config_);
  make_run(source_, &test);
  trace_.reset_totals();
  RunProgress progress;
  run_->train(progress, 7, stop_);
  EXPECT_THAT(source_.loaded, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(test.loaded, ElementsAre(0, 1, 2, 0, 1, 2, 0, 1, 2));
  EXPECT_THAT(steps_with(folder_.path("run/metrics.jsonl"), "auc"), ElementsAre(2, 4, 6));
  EXPECT_THAT(steps_with(folder_.path("run/metrics.jsonl"), "lr"), ElementsAre(1, 4, 7));
  EXPECT_TRUE(std::filesystem::exists(folder_.path("ckpt/step_000000003")));
  EXPECT_TRUE(std::filesystem::exists(folder_.path("ckpt/step_000000006")));
  EXPECT_FALSE(std::filesystem::exists(folder_.path("ckpt/step_000000007")));
  // Evaluations are no part of the stages' times.
  for (const Trace::Total& total : trace_.totals()) {
    const std::string name = total.name;
    if (name == "checkpoint") EXPECT_EQ(total.count, 2);
    if (name == "route" || name == "backward" || name == "lookup") EXPECT_EQ(total.count, 7);
  }
}

TEST_F(OneRun, MakesUpForAnEvaluationThatWasDue) {
  config_.eval.every_steps = 2;
  const OddSource test(config_);
  make_run(source_, &test);
  RunProgress progress;
  progress.step = 4;
  progress.samples = 72;
  run_->train(progress, 5, stop_);
  EXPECT_THAT(steps_with(folder_.path("run/metrics.jsonl"), "auc"), ElementsAre(4));
  EXPECT_EQ(progress.step, 5);
  run_->train(progress, 5, stop_);  // nothing is left
  EXPECT_EQ(progress.step, 5);
  EXPECT_THAT(source_.loaded, ElementsAre(4));
}

TEST_F(OneRun, DoesNotGoOnIfTheEvaluationThatWasDueIsEnough) {
  config_.eval.every_steps = 2;
  config_.eval.stop_at_auc = 1e-6;
  const OddSource test(config_);
  make_run(source_, &test);
  RunProgress progress;
  progress.step = 4;
  run_->train(progress, 7, stop_);
  EXPECT_EQ(progress.step, 4);
  EXPECT_THAT(source_.loaded, IsEmpty());
}

TEST_F(OneRun, EvaluatesTheSlicesOfAFeature) {
  config_.eval.slice_by = "left";
  make_run(source_, &source_);
  RunProgress progress;
  progress.step = 2;
  run_->evaluate_now(progress, stop_);
  EXPECT_EQ(run_->slices().feature, "left");
  EXPECT_FALSE(run_->slices().slices.empty());
}

TEST_F(OneRun, MeasuresItsThreadsAndItsWaits) {
  config_.data.workers = 0;  // steps wait for all of the reading
  make_run(source_, nullptr, 1'000'000);
  RunProgress progress;
  run_->train(progress, 3, stop_);
  EXPECT_GT(progress.wait_seconds, 0);
  EXPECT_LT(progress.cpu_utilization, 0.01);  // of a million threads
}

TEST_F(OneRun, CountsTheRowsOfNoMoreBatchesThanItTrainsOrAnEpochHas) {
  config_.device = DeviceKind::kCpu;
  for (Shard& shard : plan_.shards) shard.tier = MemoryTier::kCached;
  config_.memory.tier = MemoryTier::kCached;
  config_.memory.cached.backing = "host";
  config_.memory.cached.fast = "99%";
  config_.memory.cached.policy = "static";
  for (const auto& [total, counted] : {std::pair{2, 2}, {5, 3}}) {
    source_.loaded.clear();
    begin(source_);
    RunProgress progress;
    run_->train(progress, total, stop_);
    EXPECT_EQ(progress.step, total);
    EXPECT_EQ(std::ssize(source_.loaded), total + counted);
  }
}

TEST_F(OneRun, EndsWithTheFirstOfTooManyEvaluationsWithoutABetterOne) {
  config_.eval.every_steps = 1;
  config_.eval.patience = 2;
  config_.train.dense_optimizer.lr = config_.train.sparse_optimizer.lr = 0;  // all are equal
  begin(source_);
  const OddSource test(config_);
  make_run(source_, &test);
  RunProgress progress;
  run_->train(progress, 9, stop_);
  EXPECT_EQ(progress.step, 3);
  EXPECT_EQ(evaluations_.since_best(), 2);
  EXPECT_FALSE(progress.stopped);
  run_->train(progress, 9, stop_);
  EXPECT_EQ(progress.step, 3);
}

TEST_F(OneRun, GoesOnIfACheckpointCannotBeWrittenAndSaysSoOnce) {
  config_.checkpoint.keep_best = BestMetric::kAuc;
  std::ofstream(folder_.path("ckpt")) << "in its place";
  RunProgress progress;
  ::testing::internal::CaptureStderr();
  for (progress.step = 1; progress.step < 4; ++progress.step) run_->keep_best(progress);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(run_->failed_saves(), 3);
  EXPECT_THAT(run_->unsaved(), HasSubstr(folder_.path("ckpt")));
  EXPECT_THAT(log, HasSubstr("step 1: not saved: "));
  EXPECT_THAT(log,
              HasSubstr("training continues, and the next checkpoint is tried when it is due"));
  EXPECT_EQ(log.find("step 2"), std::string::npos) << log;
  std::filesystem::remove(folder_.path("ckpt"));
  run_->keep_best(progress);
  EXPECT_EQ(run_->unsaved(), "");
  EXPECT_EQ(run_->failed_saves(), 3);
  EXPECT_EQ(std::filesystem::read_symlink(folder_.path("ckpt/best")), "step_000000004");
  // A step is saved once.
  const auto written = std::filesystem::last_write_time(folder_.path("ckpt/step_000000004"));
  std::filesystem::create_directory(folder_.path("ckpt/step_000000004/mark"));
  run_->save(progress);
  EXPECT_TRUE(std::filesystem::exists(folder_.path("ckpt/step_000000004/mark")));
  EXPECT_GE(std::filesystem::last_write_time(folder_.path("ckpt/step_000000004")), written);
}

TEST(IsEnough, IfTheTargetOrTheEndOfPatienceIsReached) {
  EvaluationHistory history(BestMetric::kNone);
  EvalConfig config;
  config.stop_at_auc = 0.75;
  config.patience = 2;
  EXPECT_FALSE(is_enough(history, config));
  history.add({1, EvalResult{100, 0.7499, 0.5, 0.8, 1.1}});
  EXPECT_FALSE(is_enough(history, config));
  history.add({2, EvalResult{100, 0.7499, 0.5, 0.8, 1.1}});
  EXPECT_FALSE(is_enough(history, config));
  history.add({3, EvalResult{100, std::nullopt, 0.5, 0.8, 1.1}});
  ::testing::internal::CaptureStderr();
  const Log log;
  EXPECT_TRUE(is_enough(history, config, &log));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("step 3: 2 evaluations without a better one end training (eval.patience)"));
  config.patience = 3;
  EXPECT_FALSE(is_enough(history, config));
  config.patience = 0;
  EXPECT_FALSE(is_enough(history, config));
  history.add({4, EvalResult{100, 0.75, 0.5, 0.8, 1.1}});
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(is_enough(history, config, &log));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("step 4: the target AUC 0.75 is reached"));
  config.stop_at_auc = 0;
  EXPECT_FALSE(is_enough(history, config));
}

TEST_F(OneRun, AccumulatorsBeginWithTheValuesOfTheirOwnOptimizers) {
  config_.train.dense_optimizer.type = OptimizerRule::kAdagrad;
  config_.train.dense_optimizer.initial_accumulator = 0.5;
  config_.train.sparse_optimizer.type = OptimizerRule::kAdagrad;
  config_.train.sparse_optimizer.initial_accumulator = 0.25;
  begin(source_);
  int dense = 0, tables = 0;
  for (const TensorShard& shard : trainer_->shards()) {
    if (!shard.path.ends_with("adagrad")) continue;
    std::vector<float> values(static_cast<size_t>(shard.rows.size() * shard.columns.size()));
    shard.read(0, shard.rows.size(), values.data());
    const bool table = shard.path.starts_with("/tables/");
    ++(table ? tables : dense);
    EXPECT_EQ(values, std::vector<float>(values.size(), table ? 0.25f : 0.5f)) << shard.path;
  }
  EXPECT_GT(dense, 0);
  EXPECT_GT(tables, 0);
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
  EXPECT_EQ(state.seed, config_.train.seed);
  EXPECT_EQ(state.config, to_yaml(config_));
  EXPECT_EQ(state.plan, to_json(plan_, config_.model));
  EXPECT_EQ(state.evaluations, evaluations_.text());
}

TEST_F(OneRun, CountsWhatItTrainsItself) {
  RunProgress progress;
  progress.step = 4;
  progress.samples = 72;
  run_->train(progress, 7, stop_);
  EXPECT_EQ(progress.samples_here, 22 + 18 + 22);
  EXPECT_EQ(run_->times().count(), 3);
  EXPECT_NEAR(progress.loop_seconds, 3e-3 * run_->times().mean_ms(), 1e-9);
  EXPECT_LE(progress.wait_seconds, progress.loop_seconds);
  EXPECT_GE(progress.wait_seconds, 0);
  EXPECT_GT(progress.loss, 0);
  EXPECT_FALSE(progress.stopped);
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

TEST_F(OneRun, ChecksTheUpdateOfTheLastStep) {
  config_.device = DeviceKind::kCpu;
  config_.train.sparse_optimizer.type = OptimizerRule::kAdagrad;
  begin(source_);
  for (const TensorShard& shard : trainer_->shards()) {
    if (!shard.path.ends_with("/adagrad")) continue;
    const auto count = static_cast<size_t>(shard.rows.size() * shard.columns.size());
    const std::vector<float> values(count, HUGE_VALF);
    shard.write(0, shard.rows.size(), values.data());
  }
  RunProgress progress;
  EXPECT_THAT(error_of([&] { run_->train(progress, 1, stop_); }),
              HasSubstr("the last update is not finite: /tables/"));
}

TEST_F(OneRun, ACheckpointThatIsNotFiniteIsNoFullDisk) {
  config_.device = DeviceKind::kCpu;
  begin(source_);
  fill_tables(std::nanf(""));
  RunProgress progress;
  progress.step = 1;
  EXPECT_THROW(run_->save(progress), NotFinite);
  EXPECT_EQ(run_->failed_saves(), 0);
  EXPECT_EQ(run_->unsaved(), "");
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
