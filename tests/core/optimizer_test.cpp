#include "dlrm/core/optimizer.h"

#include <cmath>
#include <iterator>
#include <string>

#include <fmt/format.h>
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

/// Each constant as "KEY: from LOWEST to HIGHEST, DEFAULT, MEANING".
std::string constants() {
  const OptimizerConfig config;
  std::string text;
  for (const OptimizerConstant& constant : kOptimizerConstants) {
    text += fmt::format("{}: from {} {} {}, {}, {}\n", constant.key, constant.lowest,
                        constant.below_highest ? "below" : "to", constant.highest,
                        config.*constant.value, constant.meaning);
  }
  return text;
}

TEST(Optimizers, HaveConstantsWithRangesAndDefaults) {
  EXPECT_EQ(constants(), R"(eps: from 1e-30 to 1, 1e-10, added to the square root in the denominator
initial_accumulator: from 0 to 1000000, 0, initial value of the sums of squares
beta1: from 0 below 1, 0.9, decay rate of the first moment
beta2: from 0 below 1, 0.999, decay rate of the second moment
beta: from 1e-30 to 1000000, 1, added to the square root in the denominator
l1: from 0 to 1000000, 0, coefficient of the L1 norm
l2: from 0 to 1000000, 0, coefficient of half the squared L2 norm
weight_decay: from 0 to 1000000, 0, coefficient of the weight in the direction of a step
)");
}

/// Each rule as "NAME: USES; KEYS; default of eps; STATES", where + stands for a state that starts
/// at initial_accumulator.
std::string rules() {
  OptimizerConfig config;
  config.initial_accumulator = 7;
  std::string text;
  for (const OptimizerTraits& rule : kOptimizers) {
    text += fmt::format("{}:{}{}{}{};", rule.name, rule.dense() ? " dense" : "",
                        rule.sparse() ? " sparse" : "", rule.rowwise() ? " rowwise" : "",
                        rule.tensorwise() ? " tensorwise" : "");
    for (const OptimizerConstant& constant : kOptimizerConstants) {
      if ((rule.constants & constant.bit) != 0) text += fmt::format(" {}", constant.key);
    }
    text += fmt::format("; {};", rule.eps);
    for (int i = 0; i < rule.state_count(); ++i) {
      const double initial = rule.states[i].initial(config);
      text += fmt::format(" {}{}", rule.states[i].name, initial == 7 ? "+" : "");
      EXPECT_TRUE(initial == 7 || initial == 0);
    }
    text += "\n";
  }
  return text;
}

TEST(Optimizers, HaveTheirUsesConstantsAndStates) {
  EXPECT_EQ(rules(), R"(sgd: dense sparse;; 1e-10;
adagrad: dense sparse; eps initial_accumulator; 1e-10; adagrad+
rowwise_adagrad: sparse rowwise; eps initial_accumulator; 1e-10; adagrad+
adam: dense sparse; eps beta1 beta2; 1e-08; adam_m adam_v
ftrl: sparse; initial_accumulator beta l1 l2; 1e-10; ftrl_z ftrl_n+
lamb: dense tensorwise; eps beta1 beta2 weight_decay; 1e-06; lamb_m lamb_v
)");
}

/// The names of the rules for which with_rule<Use>() calls its body.
template <uint32_t Use>
std::string called_for() {
  std::string text;
  for (size_t i = 0; i < std::size(kOptimizers); ++i) {
    with_rule<Use>(static_cast<OptimizerRule>(i), [&]<OptimizerRule R>() {
      EXPECT_EQ(R, static_cast<OptimizerRule>(i));
      text += fmt::format("{}{}{}{}{} ", traits_of(R).name, kState1<R> ? "1" : "",
                          kState2<R> ? "2" : "", kElementState1<R> ? "e" : "",
                          kElementState2<R> ? "E" : "");
    });
  }
  return text;
}

TEST(Optimizers, AreChosenByTheirUses) {
  EXPECT_EQ(called_for<kDense>(), "sgd adagrad1e adam12eE lamb12eE ");
  EXPECT_EQ(called_for<kSparse>(), "sgd adagrad1e rowwise_adagrad1 adam12eE ftrl12eE ");
  EXPECT_EQ(called_for<kDense | kSparse>(), "sgd adagrad1e adam12eE ");
  EXPECT_EQ(called_for<kRowwise>(), "rowwise_adagrad1 ");
  EXPECT_EQ(called_for<kTensorwise>(), "lamb12eE ");
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
