#include <cmath>

#include "fixture.h"

namespace dlrm {
namespace {

constexpr double kDecay = 0.1, kLr = 0.05;

OptimizerConfig decaying(OptimizerRule rule) {
  OptimizerConfig config;
  config.type = rule;
  config.eps = 1e-6;
  config.weight_decay = kDecay;
  return config;
}

/// A tensor and its state, in fp32 for an execution, or in fp64 for PyTorch's formulas.
template <class Number>
struct Parameter {
  std::vector<Number> w, s1, s2;

  explicit Parameter(size_t n) : s1(n), s2(n) {
    for (size_t i = 0; i < n; ++i) w.push_back(std::sin(static_cast<float>(i + 1)));
  }
};

/// The gradient of element i at step t.
float gradient(size_t i, int64_t t) {
  return 0.5f * std::cos(static_cast<float>(3 * i + 1)) + 0.1f * static_cast<float>(t);
}

/// Algorithms of torch.optim.AdamW, SGD and Adagrad in fp64.
void step_of_torch(Parameter<double>& p, OptimizerRule rule, int64_t t) {
  const OptimizerConfig c = decaying(rule);
  for (size_t i = 0; i < p.w.size(); ++i) {
    double& w = p.w[i];
    double g = gradient(i, t);
    if (rule == OptimizerRule::kAdam) {
      w -= kLr * kDecay * w;
      p.s1[i] = c.beta1 * p.s1[i] + (1 - c.beta1) * g;
      p.s2[i] = c.beta2 * p.s2[i] + (1 - c.beta2) * g * g;
      const double m = p.s1[i] / (1 - std::pow(c.beta1, t + 1));
      const double v = p.s2[i] / (1 - std::pow(c.beta2, t + 1));
      w -= kLr * m / (std::sqrt(v) + c.eps);
      continue;
    }
    g += kDecay * w;
    if (rule == OptimizerRule::kSgd) {
      w -= kLr * g;
    } else {
      p.s1[i] += g * g;
      w -= kLr * g / (std::sqrt(p.s1[i]) + c.eps);
    }
  }
}

using WeightDecay = EveryExecution;

TEST_P(WeightDecay, StepsAreThoseOfPyTorch) {
  for (const OptimizerRule rule :
       {OptimizerRule::kSgd, OptimizerRule::kAdagrad, OptimizerRule::kAdam}) {
    const int states = traits_of(rule).state_count();
    for (const size_t n : {1, 5, 16, 37, 40001}) {
      for (Ops* by : {ops.get(), reference.get()}) {
        Parameter<float> got(n);
        Parameter<double> want(n);
        for (int64_t t = 0; t < 8; ++t) {
          std::vector<float> g(n);
          for (size_t i = 0; i < n; ++i) g[i] = gradient(i, t);
          step_of_torch(want, rule, t);
          by->dense_update(optimizer_step(decaying(rule), kLr, t), got.w, g,
                           states > 0 ? View<float>(got.s1) : View<float>(),
                           states > 1 ? View<float>(got.s2) : View<float>(), {});
          for (size_t i = 0; i < n; ++i) {
            ASSERT_NEAR(got.w[i], want.w[i], 2e-5)
                << traits_of(rule).name << " " << by->name() << ", step " << t << ", " << i;
          }
        }
      }
    }
  }
}

/// 0 times an infinite weight would be NaN.
TEST_P(WeightDecay, ZeroDoesNotTouchTheGradient) {
  for (const OptimizerRule rule : {OptimizerRule::kSgd, OptimizerRule::kAdagrad}) {
    OptimizerConfig config = decaying(rule);
    config.weight_decay = 0;
    std::vector<float> w(20, HUGE_VALF), g(20, 0.5f), s1(20, 1.0f);
    ops->dense_update(optimizer_step(config, kLr, 0), w, g,
                      rule == OptimizerRule::kSgd ? View<float>() : View<float>(s1), {}, {});
    EXPECT_EQ(w, std::vector<float>(20, HUGE_VALF)) << traits_of(rule).name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, WeightDecay, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
