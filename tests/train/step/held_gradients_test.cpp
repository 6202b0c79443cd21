// Models whose dense gradients fill several buckets of a GPU, so that weight gradients are held
// back until the gradients of rows travel.
#include <cstdlib>

#include <gtest/gtest.h>

#include "dlrm/device/device.h"

#include "train/small_run.h"

namespace dlrm {
namespace {

/// Some 0.4 million dense parameters. The first bucket has the last two layers of top. Tables of
/// one and three rows are data-parallel: their gradients are summed with the second bucket.
RunConfig wide_model(const InteractionConfig& interaction, Precision precision) {
  RunConfig c = odd_model();
  c.model.interaction = interaction;
  c.model.top_mlp = {256, 512, 512, 1};
  for (const char* copied : {"one", "three"}) {
    c.sharding.tables[copied] = Strategy::kDataParallel;
  }
  c.model.activation = precision == Precision::kFp32 ? Activation::kRelu : Activation::kGelu;
  for (TableConfig& table : c.model.tables) {
    for (FeatureConfig& feature : table.features) feature.hotness = 1;
  }
  c.train.global_batch_size = 6;
  c.routing.depth = 0;
  c.train.dense_optimizer.lr = 0.01;
  c.train.precision = precision;
  return c;
}

RunConfig held_on_gpu(RunConfig c, CommKind comm) {
  ::setenv("NCCL_HOSTID", "of this rank", 1);  // ranks that share a GPU need one each
  c.device = DeviceKind::kCuda;
  c.comm = comm;
  return c;
}

TEST(HeldGradients, TrainAsOnACpu) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  const RunConfig exact = wide_model(CrossConfig{2, 3}, Precision::kFp32);
  expect_alike(train_on_threads(held_on_gpu(exact, CommKind::kStaged), 2, 2),
               train_on_threads(exact, 2, 2), 1e-5, 1e-4);
  const RunConfig rounded = wide_model(DotConfig(), Precision::kBf16);
  expect_alike(train_on_threads(held_on_gpu(rounded, CommKind::kStaged), 2, 2),
               train_on_threads(rounded, 2, 2), 2e-3, 2e-2);
}

/// A wire of bf16 rounds dense gradients, and data-parallel tables are then summed apart.
TEST(HeldGradients, TablesThatAreSummedApartTrainAsOnACpu) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  RunConfig apart = wide_model(DotConfig(), Precision::kFp32);
  apart.train.wire.dense = DType::kBFloat16;
  expect_alike(train_on_threads(held_on_gpu(apart, CommKind::kStaged), 2, 2),
               train_on_threads(apart, 2, 2), 1e-3, 1e-2);
}

TEST(HeldGradients, InGraphsOverNcclGiveTheSameBits) {
  if (!cuda_is_emulated()) GTEST_SKIP() << "NCCL does not let ranks share a GPU";
  const RunConfig c = wide_model(CrossConfig{2, 3}, Precision::kFp32);
  const Trained staged = train_recorded(held_on_gpu(c, CommKind::kStaged), 2, 5, false);
  const Trained recorded = train_recorded(held_on_gpu(c, CommKind::kNccl), 2, 5, true);
  EXPECT_GT(recorded.launched, 0);
  expect_alike(recorded, staged, 0, 0);
}

}  // namespace
}  // namespace dlrm
