// What a training loop counts, over several steps and calls.
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "dlrm/comm/thread_comm.h"

#include "train/one_run.h"
#include "train/test_rank.h"

namespace dlrm {
namespace {

using ::testing::IsEmpty;

/// Batch t has 10^t dropped ids, or `dropped` of them if that is given.
class DroppingSource final : public BatchSource {
 public:
  explicit DroppingSource(const RunConfig& config, int64_t dropped = 0, int rank = 0, int world = 1)
      : odd_(config, rank, world), dropped_(dropped) {}
  const BatchPlan& plan() const override { return odd_.plan(); }
  void load(int64_t t, Batch& batch) const override {
    odd_.load(t, batch);
    batch.dropped = dropped_;
    if (dropped_ == 0) {
      batch.dropped = 1;
      for (int64_t i = 0; i < t; ++i) batch.dropped *= 10;
    }
  }
  std::string describe() const override { return "dropping"; }

 private:
  OddSource odd_;
  int64_t dropped_;
};

TEST_F(OneRun, CountsWhatAllStepsOfAllCallsDropAndNoEvaluation) {
  config_.eval.every_steps = 2;
  for (const int depth : {0, 2}) {
    config_.routing.depth = depth;
    const DroppingSource train(config_), test(config_, 7);
    begin(train);
    evaluations_ = EvaluationHistory(BestMetric::kNone);
    make_run(train, &test);
    RunProgress progress;
    run_->train(progress, 3, stop_);
    EXPECT_EQ(progress.dropped_ids, 111);
    EXPECT_EQ(progress.samples, 22 + 22 + 18);
    const double seconds = progress.loop_seconds;
    EXPECT_GT(seconds, 0);
    EXPECT_GT(progress.cpu_utilization, 0);
    run_->train(progress, 5, stop_);
    EXPECT_EQ(progress.dropped_ids, 11111);
    EXPECT_EQ(progress.samples, 22 + 22 + 18 + 22 + 22);
    EXPECT_EQ(progress.samples_here, progress.samples);
    EXPECT_GT(progress.loop_seconds, seconds);
    EXPECT_TRUE(evaluations_.has(4));
  }
}

TEST_F(OneRun, AStoppedStepIsTheLastAndNothingThatIsDueFollowsIt) {
  config_.eval.every_steps = 1;
  config_.checkpoint.every_steps = 1;
  begin(source_);
  const OddSource test(config_);
  make_run(source_, &test);
  std::raise(SIGUSR1);
  RunProgress progress;
  run_->train(progress, 7, stop_);
  EXPECT_EQ(progress.step, 1);
  EXPECT_TRUE(progress.stopped);
  EXPECT_THAT(test.loaded, IsEmpty());
  EXPECT_FALSE(evaluations_.last());
  EXPECT_FALSE(std::filesystem::exists(folder_.path("ckpt")));
}

TEST_F(OneRun, StoppedInTheEvaluationThatWasDueTrainsNothing) {
  config_.eval.every_steps = 2;
  config_.data.workers = 0;
  begin(source_);
  const OddSource test(config_);
  make_run(source_, &test);
  std::raise(SIGUSR1);
  RunProgress progress;
  progress.step = 4;
  run_->train(progress, 7, stop_);
  EXPECT_EQ(progress.step, 4);
  EXPECT_TRUE(progress.stopped);
  EXPECT_FALSE(test.loaded.empty());
  EXPECT_THAT(source_.loaded, IsEmpty());
  EXPECT_FALSE(evaluations_.last());
}

/// The bytes that each of two ranks sends in steps `first` to 5, in one call or in two.
std::vector<int64_t> sent_after(int64_t first, bool evaluates, bool twice) {
  World world(nullptr, nullptr);
  const testing::TemporaryFolder folder;
  RunConfig config = odd_model();
  config.device = DeviceKind::kCpu;
  shard_by(config, Strategy::kRow);
  config.eval.every_steps = 2;
  config.data.workers = 1;
  const Plan plan = make_plan(config, 2);
  std::vector<int64_t> sent(2);
  run_on_threads(2, [&](Communicator& comm) {
    TestRank rank(comm, config);
    Trainer trainer(rank.context, *rank.ops, config, plan, true);
    JobLocks locks(comm);
    RunDirectory directory(comm, folder.path());
    directory.start("", "");
    EvaluationHistory evaluations(BestMetric::kNone);
    const OddSource source(config, comm.rank(), 2);
    const StopSignal stop;
    TrainingRun run({rank.context, world, locks, config, plan, trainer, directory, source, nullptr,
                     evaluates ? &source : nullptr, evaluations, 1});
    RunProgress progress;
    if (twice) run.train(progress, first, stop);
    progress.step = first;
    run.train(progress, 5, stop);
    EXPECT_EQ(evaluations.has(4), evaluates);
    sent[static_cast<size_t>(comm.rank())] = progress.sent.by_embeddings;
  });
  return sent;
}

TEST(TrainingRunOfRanks, CountsNothingThatEvaluationsSendNorOneBeforeItsSteps) {
  for (const int64_t first : {0, 2}) {
    const std::vector<int64_t> sent = sent_after(first, false, false);
    EXPECT_GT(sent[0], 0);
    EXPECT_GT(sent[1], 0);
    EXPECT_EQ(sent_after(first, true, false), sent);
    if (first > 0) EXPECT_EQ(sent_after(first, true, true), sent);
  }
}

}  // namespace
}  // namespace dlrm
