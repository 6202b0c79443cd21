#include <gtest/gtest.h>

#include "dlrm/device/device.h"

#include "small_run.h"

namespace dlrm {
namespace {

constexpr Strategy kStrategies[] = {Strategy::kAuto,   Strategy::kTable, Strategy::kRow,
                                    Strategy::kColumn, Strategy::kGrid,  Strategy::kDataParallel};

/// odd_model(), where the ids of every other feature have weights.
RunConfig weighted_model(Strategy strategy, DeviceKind device = DeviceKind::kCpu) {
  RunConfig config = adagrad_model(strategy, device);
  bool weighted = false;
  for (TableConfig& table : config.model.tables) {
    for (FeatureConfig& feature : table.features) {
      feature.weights = weighted = !weighted;
      if (weighted) feature.pooling = Pooling::kSum;
    }
  }
  return config;
}

TEST(WeightedIds, OnAnyNumberOfRanksTrainToTheWeightsOfTheReference) {
  const Trained reference = train_on_threads(weighted_model(Strategy::kAuto), 1, 5, true);
  for (const Strategy strategy : kStrategies) {
    for (const int ranks : {1, 3}) {
      const Trained trained = train_on_threads(weighted_model(strategy), ranks, 5);
      expect_alike(trained, reference, 1e-5, 1e-4);
    }
  }
  RunConfig plain = weighted_model(Strategy::kAuto);
  for (TableConfig& table : plain.model.tables) {
    for (FeatureConfig& feature : table.features) feature.weights = false;
  }
  EXPECT_NE(train_on_threads(plain, 1, 5).losses, reference.losses);
}

TEST(WeightedIds, WeightTheLinearPartToo) {
  const RunConfig config = with_linear(weighted_model(Strategy::kAuto));
  const Trained reference = train_on_threads(config, 1, 5, true);
  expect_alike(train_on_threads(config, 3, 5), reference, 1e-5, 1e-4);
  RunConfig half = config;
  for (TableConfig& table : half.model.tables) {
    if (table.is_linear) table.features[0].weights = false;
  }
  EXPECT_NE(train_on_threads(half, 1, 5, true).losses, reference.losses);
}

TEST(WeightedIds, OfCachedRowsAndOfAResumedRunGiveTheSameBits) {
  for (const Strategy strategy : {Strategy::kAuto, Strategy::kRow}) {
    expect_same_bits_from_caches_and_after_a_stop(weighted_model(strategy));
  }
}

TEST(WeightedIds, OnAGpuTrainToTheWeightsOfTheReference) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  const Trained reference = train_on_threads(weighted_model(Strategy::kAuto), 1, 5, true);
  for (const Strategy strategy : {Strategy::kAuto, Strategy::kGrid, Strategy::kDataParallel}) {
    expect_gpus_train_to(reference, weighted_model(strategy, DeviceKind::kCuda));
  }
}

}  // namespace
}  // namespace dlrm
