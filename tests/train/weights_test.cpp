// Weights of samples, from a batch to the loss, the gradients and the metrics.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/train/evaluation.h"

#include "small_run.h"
#include "test_rank.h"

namespace dlrm {
namespace {

/// The weight of a sample of batch t: 0, less than 1 or more.
float weight_of(int64_t t, int64_t sample) {
  return static_cast<float>((sample * 7 + t * 3) % 5) * 0.75f;
}

Batch weighted_batch(const RunConfig& config, int64_t t, int rank, int world) {
  Batch batch = odd_batch(config, t, rank, world);
  for (int64_t s = batch.local.begin; s < batch.local.end; ++s) {
    batch.weights.push_back(weight_of(t, s));
  }
  return batch;
}

class WeightedTraining : public ::testing::TestWithParam<DeviceKind> {
 protected:
  static RunConfig config() {
    RunConfig c = odd_model();
    c.device = GetParam();
    c.train.sparse_optimizer.type = OptimizerRule::kAdagrad;
    c.train.sparse_optimizer.initial_accumulator = 0.1;
    return c;
  }
};
INSTANTIATE_TEST_SUITE_P(All, WeightedTraining, ::testing::ValuesIn(devices()),
                         [](const auto& info) {
                           return info.param == DeviceKind::kCpu ? "cpu" : "cuda";
                         });

TEST_P(WeightedTraining, SeveralRanksTrainAsTheReferenceOnOneRank) {
  RunConfig c = config();
  RunConfig on_cpu = c;
  on_cpu.device = DeviceKind::kCpu;
  const Trained expected = train_on_batches(on_cpu, 1, 5, weighted_batch, true);
  for (const Strategy strategy : {Strategy::kTable, Strategy::kRow, Strategy::kDataParallel}) {
    shard_by(c, strategy);
    for (const int ranks : {1, 3}) {
      expect_alike(train_on_batches(c, ranks, 5, weighted_batch), expected, 1e-5, 1e-4);
    }
  }
}

TEST_P(WeightedTraining, WeightsOfOneChangeNoBit) {
  const MakeBatch ones = [](const RunConfig& config, int64_t t, int rank, int world) {
    Batch batch = odd_batch(config, t, rank, world);
    batch.weights.assign(batch.labels.size(), 1.0f);
    return batch;
  };
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    RunConfig c = config();
    c.train.precision = precision;
    expect_alike(train_on_batches(c, 2, 4, ones), train_on_threads(c, 2, 4), 0, 0);
  }
}

TEST_P(WeightedTraining, LossAndGradientAreDividedByTheSamplesNotByTheirWeight) {
  const auto comm = make_self_comm();
  const RunConfig c = config();
  TestRank rank(*comm, c);
  Trainer trainer(rank.context, *rank.ops, c, make_plan(c, 1), true);
  const auto bias = [&] {
    for (const TensorShard& shard : trainer.shards()) {
      if (shard.path != "/mlp/top/1/bias") continue;
      float value = 0;
      shard.read(0, 1, &value);
      return value;
    }
    throw std::logic_error("no such bias");
  };
  const Batch batch = weighted_batch(c, 2, 0, 1);
  ASSERT_LT(batch.global_size, c.train.global_batch_size);
  trainer.route(batch);
  std::vector<float> p;
  TargetList targets;
  trainer.infer(p, targets);
  EXPECT_EQ(targets.labels, batch.labels);
  EXPECT_EQ(targets.weights, batch.weights);
  const auto size = static_cast<double>(p.size());
  double gradient = 0, loss = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    gradient += batch.weights[i] * (p[i] - batch.labels[i]) / size;
    loss -= batch.weights[i] * std::log(batch.labels[i] > 0 ? p[i] : 1 - p[i]) / size;
  }
  const float before = bias();
  trainer.route(batch);
  EXPECT_NEAR(trainer.step(0, false).loss, loss, 1e-5);
  EXPECT_NEAR(before - bias(), c.train.dense_optimizer.lr * gradient, 1e-6);
}

TEST(WeightsOnACpu, ThatMakeALossInfiniteAreNoLayersFault) {
  for (const int ranks : {1, 2}) {
    run_on_threads(ranks, [&](Communicator& comm) {
      const RunConfig c = odd_model();
      TestRank rank(comm, c);
      Trainer trainer(rank.context, *rank.ops, c, make_plan(c, ranks), true);
      Batch batch = weighted_batch(c, 0, comm.rank(), ranks);
      if (comm.rank() == ranks - 1) batch.weights[0] = HUGE_VALF;
      trainer.route(batch);
      EXPECT_EQ(error_of([&] { trainer.step(0, false); }),
                "the loss is inf though every layer's output is finite");
    });
  }
}

TEST_P(WeightedTraining, RecordedStepsHaveTheWeightsOfTheirBatch) {
  if (GetParam() == DeviceKind::kCpu) GTEST_SKIP() << "a CPU records no steps";
  RunConfig c = config();
  for (TableConfig& table : c.model.tables) {
    for (FeatureConfig& feature : table.features) feature.hotness = 1;
  }
  // Batches of the same size with and without weights take turns.
  const MakeBatch every_other = [](const RunConfig& config, int64_t t, int rank, int world) {
    return (t / 3) % 2 == 0 ? weighted_batch(config, 3 * (t / 3), rank, world)
                            : odd_batch(config, 3 * (t / 3), rank, world);
  };
  const Trained recorded = train_on_batches(c, 1, 30, every_other, false, true);
  EXPECT_GT(recorded.launched, 0);
  expect_alike(recorded, train_on_batches(c, 1, 30, every_other), 0, 0);
}

/// Some batches in the order of their numbers.
class WeightedSource final : public BatchSource {
 public:
  WeightedSource(const RunConfig& config, int rank, int world)
      : config_(config), rank_(rank), world_(world), plan_{62, 22} {}

  const BatchPlan& plan() const override { return plan_; }
  void load(int64_t t, Batch& batch) const override {
    batch = weighted_batch(config_, t, rank_, world_);
  }
  std::string describe() const override { return "batches with weights"; }

 private:
  const RunConfig& config_;
  const int rank_, world_;
  const BatchPlan plan_;
};

TEST_P(WeightedTraining, AnEvaluationIsWeightedOnAnyNumberOfRanks) {
  const RunConfig c = config();
  std::vector<float> p, y;  // of one rank
  const TakePredictions take = [&](int64_t, View<const float> probabilities,
                                   View<const float> labels) {
    p.insert(p.end(), probabilities.begin(), probabilities.end());
    y.insert(y.end(), labels.begin(), labels.end());
  };
  EvalResult results[4];
  for (const int ranks : {1, 3}) {
    run_on_threads(ranks, [&](Communicator& comm) {
      TestRank rank(comm, c);
      Trainer trainer(rank.context, *rank.ops, c, make_plan(c, ranks), true);
      const WeightedSource source(c, comm.rank(), ranks);
      const auto result = evaluate(rank.context, trainer, source, c, StopSignal(),
                                   {ranks == 1 ? take : TakePredictions()});
      ASSERT_TRUE(result.has_value());
      if (comm.rank() == 0) results[ranks] = *result;
    });
  }
  double weight = 0, loss = 0, right = 0;
  ASSERT_EQ(p.size(), 62u);
  for (size_t i = 0; i < p.size(); ++i) {
    const double w = weight_of(static_cast<int64_t>(i) / 22, static_cast<int64_t>(i) % 22);
    weight += w;
    loss -= w * std::log(y[i] > 0 ? p[i] : 1 - p[i]);
    right += (p[i] >= 0.5f) == (y[i] >= 0.5f) ? w : 0;
  }
  for (const int ranks : {1, 3}) {
    EXPECT_EQ(results[ranks].samples, 62);
    EXPECT_NEAR(results[ranks].log_loss, loss / weight, 1e-5) << ranks;
    EXPECT_NEAR(results[ranks].accuracy, right / weight, 1e-9) << ranks;
    EXPECT_NEAR(*results[ranks].auc, *results[1].auc, 1e-6) << ranks;
  }
}

}  // namespace
}  // namespace dlrm
