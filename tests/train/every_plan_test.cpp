#include <gtest/gtest.h>

#include "small_run.h"

namespace dlrm {
namespace {

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
