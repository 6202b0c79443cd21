#include <gtest/gtest.h>

#include "train/small_run.h"

namespace dlrm {
namespace {

/// odd_model(), whose batches have 22 samples.
RunConfig scaled(LrScaling scaling, int64_t base) {
  RunConfig config = odd_model();
  config.train.lr_scaling = scaling;
  config.train.base_batch_size = base;
  return config;
}

RunConfig with_rates_times(double factor) {
  RunConfig config = odd_model();
  config.train.dense_optimizer.lr *= factor;
  config.train.sparse_optimizer.lr *= factor;
  return config;
}

Trained trained(const RunConfig& config) { return train_on_threads(config, 2, 4); }

TEST(LrScaling, MultipliesTheRatesOfBothOptimizers) {
  EXPECT_EQ(scaled(LrScaling::kNone, 11).train.batch_factor(), 1);
  expect_alike(trained(scaled(LrScaling::kNone, 11)), trained(odd_model()), 0, 0);
  expect_alike(trained(scaled(LrScaling::kLinear, 11)), trained(with_rates_times(2)), 0, 0);
  expect_alike(trained(scaled(LrScaling::kSqrt, 88)), trained(with_rates_times(0.5)), 0, 0);
}

TEST(LrScaling, ComesOnTopOfTheSchedule) {
  RunConfig config = scaled(LrScaling::kLinear, 11);
  config.train.lr_schedule.warmup_steps = 4;
  EXPECT_EQ(config.train.lr_factor(0), 0.5);
  EXPECT_EQ(config.train.lr_factor(3), 2);
}

}  // namespace
}  // namespace dlrm
