#include <gtest/gtest.h>

#include "dlrm/device/device.h"

#include "small_run.h"

namespace dlrm {
namespace {

constexpr Strategy kMaxStrategies[] = {Strategy::kAuto, Strategy::kTable, Strategy::kColumn,
                                       Strategy::kDataParallel};

/// odd_model(), where every other feature has max pooling, and no table is cut by rows.
RunConfig max_model(Strategy strategy, DeviceKind device = DeviceKind::kCpu) {
  RunConfig config = adagrad_model(strategy, device);
  config.sharding.tables.erase("shared");
  bool max = true;
  for (TableConfig& table : config.model.tables) {
    for (FeatureConfig& feature : table.features) {
      max = !max;
      if (max) feature.pooling = Pooling::kMax;
    }
  }
  return config;
}

TEST(MaxPooling, OnAnyNumberOfRanksTrainsToTheWeightsOfTheReference) {
  const Trained reference = train_on_threads(max_model(Strategy::kAuto), 1, 5, true);
  for (const Strategy strategy : kMaxStrategies) {
    for (const int ranks : {1, 2, 3}) {
      expect_alike(train_on_threads(max_model(strategy), ranks, 5), reference, 1e-5, 1e-4);
    }
  }
}

/// Adagrad's first steps from 0 are as long for each weight, so that rounding would choose among
/// equals.
TEST(MaxPooling, IsThatOfTheLinearPartToo) {
  RunConfig config = with_linear(max_model(Strategy::kAuto));
  config.train.sparse_optimizer.type = OptimizerRule::kSgd;
  const Trained reference = train_on_threads(config, 1, 5, true);
  expect_alike(train_on_threads(config, 3, 5), reference, 1e-5, 1e-4);
  RunConfig sums = config;
  for (TableConfig& table : sums.model.tables) {
    if (table.is_linear) table.features[0].pooling = Pooling::kSum;
  }
  EXPECT_NE(train_on_threads(sums, 1, 5, true).losses, reference.losses);
}

TEST(MaxPooling, OfCachedRowsAndOfAResumedRunGivesTheSameBits) {
  for (const Strategy strategy : {Strategy::kAuto, Strategy::kColumn}) {
    expect_same_bits_from_caches_and_after_a_stop(max_model(strategy));
  }
}

TEST(MaxPooling, OnAGpuTrainsToTheWeightsOfTheReference) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  const Trained reference = train_on_threads(max_model(Strategy::kAuto), 1, 5, true);
  for (const Strategy strategy : {Strategy::kAuto, Strategy::kColumn, Strategy::kDataParallel}) {
    expect_gpus_train_to(reference, max_model(strategy, DeviceKind::kCuda));
  }
}

TEST(MaxPooling, InBf16TrainsToTheSameLosses) {
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    if (device == DeviceKind::kCuda && cuda_device_count() == 0) continue;
    RunConfig config = max_model(Strategy::kTable, device);
    config.train.precision = Precision::kBf16;
    config.comm = CommKind::kAuto;
    const Trained reference = train_on_threads(max_model(Strategy::kTable), 1, 5, true);
    for (const int ranks : {1, 2}) {
      const Trained trained = train_on_threads(config, ranks, 5);
      for (size_t t = 0; t < trained.losses.size(); ++t) {
        EXPECT_NEAR(trained.losses[t], reference.losses[t], 0.02);
      }
    }
  }
}

}  // namespace
}  // namespace dlrm
