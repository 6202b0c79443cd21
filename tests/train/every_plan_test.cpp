#include <gtest/gtest.h>

#include "covering.h"
#include "small_run.h"

namespace dlrm {
namespace {

/// Whether gradients of rows have a penalty and a limit of their norm.
enum class Penalty : uint8_t { kNo, kYes };

using Case = std::tuple<Strategy, OptimizerPair, Pooling, Precision, Penalty>;

const char* name_of(Strategy s) {
  constexpr const char* kNames[] = {"auto", "table", "row", "column", "grid", "data_parallel"};
  return kNames[static_cast<int>(s)];
}
const char* name_of(OptimizerRule o) { return traits_of(o).name; }

class EveryPlan : public ::testing::TestWithParam<Case> {
 protected:
  static RunConfig config() {
    const auto [strategy, optimizers, pooling, precision, penalty] = GetParam();
    RunConfig c = odd_model();
    shard_by(c, strategy);
    c.train.sparse_optimizer.type = optimizers.sparse;
    c.train.sparse_optimizer.lr = 0.05;
    c.train.sparse_optimizer.eps = 1e-6;
    c.train.sparse_optimizer.initial_accumulator = 0.1;
    if (penalty == Penalty::kYes) {
      c.train.sparse_optimizer.l2 = 0.1;
      c.train.sparse_optimizer.clip_norm = 0.02;
      if (optimizers.sparse != OptimizerRule::kFtrl) c.model.tables[0].l2 = 0.4;
    }
    c.train.precision = precision;
    c.train.dense_optimizer = c.train.sparse_optimizer;
    c.train.dense_optimizer.type = optimizers.dense;
    c.train.dense_optimizer.lr = optimizers.dense == OptimizerRule::kSgd ? 0.1 : 0.01;
    for (TableConfig& table : c.model.tables) {
      for (FeatureConfig& feature : table.features) feature.pooling = pooling;
    }
    return c;
  }
};

TEST_P(EveryPlan, FourRanksTrainToTheWeightsOfOneRank) {
  const RunConfig c = config();
  const bool bf16 = c.train.precision == Precision::kBf16;
  expect_alike(train_on_threads(c, 4, 5), train_on_threads(c, 1, 5), bf16 ? 2e-3 : 1e-5,
               bf16 ? 2e-2 : 1e-4);
}

INSTANTIATE_TEST_SUITE_P(
    Covering, EveryPlan,
    ::testing::ValuesIn(covering_pairs(
        std::vector{Strategy::kAuto, Strategy::kTable, Strategy::kRow, Strategy::kColumn,
                    Strategy::kGrid, Strategy::kDataParallel},
        optimizer_pairs(), std::vector{Pooling::kSum, Pooling::kMean},
        std::vector{Precision::kFp32, Precision::kBf16}, std::vector{Penalty::kNo, Penalty::kYes})),
    [](const auto& info) {
      return std::string(name_of(std::get<0>(info.param))) + "_" +
             name_of(std::get<1>(info.param).sparse) + "_" +
             name_of(std::get<1>(info.param).dense) +
             (std::get<2>(info.param) == Pooling::kSum ? "_sum" : "_mean") +
             (std::get<3>(info.param) == Precision::kFp32 ? "_fp32" : "_bf16") +
             (std::get<4>(info.param) == Penalty::kNo ? "" : "_penalty");
    });

TEST(Trainer, EveryModelTrainsAsTheReferenceOnOneRankAndOnThree) {
  for (auto [name, c] : models_of_other_layers()) {
    SCOPED_TRACE(name);
    const Trained reference = train_on_threads(c, 1, 4, true);
    expect_alike(train_on_threads(c, 1, 4), reference, 1e-5, 1e-4);
    for (const Strategy strategy : {Strategy::kTable, Strategy::kGrid, Strategy::kDataParallel}) {
      shard_by(c, strategy);
      expect_alike(train_on_threads(c, 3, 4), reference, 1e-5, 1e-4);
    }
    c.train.precision = Precision::kBf16;
    expect_alike(train_on_threads(c, 3, 4), reference, 1e-2, 3e-2);
  }
}

TEST(Trainer, PenaltiesOfRowsTrainToTheWeightsOfTheReference) {
  RunConfig c = odd_model();
  c.train.sparse_optimizer.type = OptimizerRule::kRowwiseAdagrad;
  c.train.sparse_optimizer.l2 = 0.1;
  c.train.sparse_optimizer.clip_norm = 0.02;
  const Trained with = train_on_threads(c, 1, 6);
  expect_alike(with, train_on_threads(c, 1, 6, true), 1e-5, 1e-4);
  c.train.sparse_optimizer.clip_norm = 0;
  EXPECT_NE(train_on_threads(c, 1, 6).losses, with.losses);
}

TEST(Trainer, AnyNumberOfDenseFeaturesIsRead) {
  const MakeBatch without = [](const RunConfig& config, int64_t t, int rank, int world) {
    Batch batch = odd_batch(config, t, rank, world);
    std::fill(batch.dense.begin(), batch.dense.end(), 0.0f);
    return batch;
  };
  for (const int64_t features : {1, 2, 5}) {
    RunConfig c = odd_model();
    c.model.dense_features = features;
    EXPECT_NE(train_on_threads(c, 1, 2).losses, train_on_batches(c, 1, 2, without).losses);
  }
}

TEST(Trainer, TablesInBf16StayNearThoseInFp32) {
  RunConfig c = odd_model();
  const Trained exact = train_on_threads(c, 1, 5);
  for (TableConfig& table : c.model.tables) table.dtype = DType::kBFloat16;
  for (const Strategy strategy : {Strategy::kTable, Strategy::kGrid, Strategy::kDataParallel}) {
    shard_by(c, strategy);
    expect_alike(train_on_threads(c, 4, 5), exact, 1e-2, 2e-2);
  }
}

TEST(Trainer, DeeperRoutingChangesNothing) {
  RunConfig c = odd_model();
  shard_by(c, Strategy::kRow);
  const Trained shallow = train_on_threads(c, 3, 6);
  c.routing.depth = 3;
  expect_alike(train_on_threads(c, 3, 6), shallow, 0, 0);
  c.routing.mode = RoutingMode::kFixed;
  expect_alike(train_on_threads(c, 3, 6), shallow, 0, 0);
}

TEST(Trainer, TheSameRunTwiceIsBitwiseTheSame) {
  const RunConfig c = odd_model();
  expect_alike(train_on_threads(c, 4, 5), train_on_threads(c, 4, 5), 0, 0);
}

TEST(Trainer, TheScheduleScalesBothLearningRates) {
  RunConfig warm = odd_model(), half = warm;
  warm.train.lr_schedule.warmup_steps = 2;
  half.train.dense_optimizer.lr /= 2;
  half.train.sparse_optimizer.lr /= 2;
  EXPECT_EQ(train_on_threads(warm, 1, 1).tensors, train_on_threads(half, 1, 1).tensors);
}

TEST(Trainer, RoundedWiresStayNearTheExactRun) {
  RunConfig c = odd_model();
  const Trained exact = train_on_threads(c, 1, 4);
  for (const DType forward : {DType::kBFloat16, DType::kFloat16}) {
    c.train.wire = {forward, DType::kBFloat16, DType::kBFloat16};
    expect_alike(train_on_threads(c, 4, 4), exact, 5e-3, 2e-2);
  }
}

TEST(Trainer, WiresOfTwoTypesStayNearTheExactRun) {
  RunConfig c = odd_model();
  c.train.global_batch_size = 400;  // messages longer than a page
  const Trained exact = train_on_threads(c, 4, 3);
  for (const auto& [forward, backward] :
       {std::pair{DType::kBFloat16, DType::kFloat32}, {DType::kFloat32, DType::kFloat16}}) {
    c.train.wire = {forward, backward, DType::kFloat32};
    expect_alike(train_on_threads(c, 4, 3), exact, 5e-3, 2e-2);
  }
}

TEST(Trainer, MoreRanksThanSamplesAgree) {
  RunConfig c = odd_model();
  c.train.global_batch_size = 6;
  expect_alike(train_on_threads(c, 8, 4), train_on_threads(c, 1, 4), 1e-5, 1e-4);
}

}  // namespace
}  // namespace dlrm
