#include "dlrm/core/optimizer.h"

#include <cmath>

#include <gtest/gtest.h>

namespace dlrm {
namespace {

TEST(OptimizerStep, HoldsTheConstantsOfTheConfig) {
  OptimizerConfig config;
  config.type = OptimizerRule::kAdam;
  config.lr = 1;
  config.eps = 2;
  config.initial_accumulator = 3;
  config.beta1 = 0.25;
  config.beta2 = 0.75;
  config.beta = 6;
  config.l1 = 7;
  config.l2 = 8;
  config.weight_decay = 9;
  const OptimizerStep step = optimizer_step(config, 0.5, 2);
  EXPECT_EQ(step.rule, OptimizerRule::kAdam);
  EXPECT_EQ(step.lr, 0.5f);  // with the schedule's factor
  EXPECT_EQ(step.eps, 2);
  EXPECT_EQ(step.beta1, 0.25f);
  EXPECT_EQ(step.beta2, 0.75f);
  EXPECT_EQ(step.beta, 6);
  EXPECT_EQ(step.l1, 7);
  EXPECT_EQ(step.l2, 8);
  EXPECT_EQ(step.weight_decay, 9);
  EXPECT_EQ(step.step, 2u);
  // The third step.
  EXPECT_EQ(step.correction1, static_cast<float>(1 - std::pow(0.25, 3)));
  EXPECT_EQ(step.correction2, static_cast<float>(1 - std::pow(0.75, 3)));
  EXPECT_EQ(optimizer_step(config, 0.5, 0).correction1, 0.75f);
}

TEST(OptimizerStep, IsSkippedOrRaisesAFlagIfThereIsOne) {
  OptimizerStep step;
  EXPECT_FALSE(skips_update(step));
  raise_not_finite(step);
  float skip = 0;
  int not_finite = 0;
  step.skip_update = &skip;
  step.not_finite = &not_finite;
  EXPECT_FALSE(skips_update(step));
  skip = 1;
  EXPECT_TRUE(skips_update(step));
  raise_not_finite(step);
  EXPECT_EQ(not_finite, 1);
}

}  // namespace
}  // namespace dlrm
