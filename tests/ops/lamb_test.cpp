#include <cmath>

#include "fixture.h"

namespace dlrm {
namespace {

OptimizerConfig lamb_config() {
  OptimizerConfig config;
  config.type = OptimizerRule::kLamb;
  config.eps = 1e-6;
  config.weight_decay = 0.1;
  return config;
}

struct Tensor {
  std::vector<float> w, m, v, g;

  explicit Tensor(size_t n, float scale = 1) : m(n), v(n) {
    for (size_t i = 0; i < n; ++i) {
      w.push_back(scale * std::sin(static_cast<float>(i + 1)));
      g.push_back(std::cos(static_cast<float>(3 * i + 1)));
    }
  }
  void step(Ops& ops, const OptimizerConfig& config, int64_t t) {
    ops.dense_update(optimizer_step(config, 0.05, t), w, g, m, v, {});
  }
};

/// Algorithm 2 of You et al. (2020) in fp64.
struct PaperTensor {
  std::vector<double> w, m, v;

  explicit PaperTensor(const Tensor& t) : w(t.w.begin(), t.w.end()), m(t.w.size()), v(t.w.size()) {}
  void step(const std::vector<float>& g, int64_t t) {
    const OptimizerConfig c = lamb_config();
    std::vector<double> r;
    double w_squares = 0, r_squares = 0;
    for (size_t i = 0; i < w.size(); ++i) {
      m[i] = c.beta1 * m[i] + (1 - c.beta1) * g[i];
      v[i] = c.beta2 * v[i] + (1 - c.beta2) * g[i] * g[i];
      const double m_hat = m[i] / (1 - std::pow(c.beta1, t + 1));
      const double v_hat = v[i] / (1 - std::pow(c.beta2, t + 1));
      r.push_back(m_hat / (std::sqrt(v_hat) + c.eps) + c.weight_decay * w[i]);
      w_squares += w[i] * w[i];
      r_squares += r[i] * r[i];
    }
    const double trust =
        w_squares > 0 && r_squares > 0 ? std::sqrt(w_squares) / std::sqrt(r_squares) : 1;
    for (size_t i = 0; i < w.size(); ++i) w[i] -= 0.05 * trust * r[i];
  }
};

void expect_the_steps_of_the_paper(Ops& ops, size_t n, float scale) {
  Tensor got(n, scale);
  PaperTensor want(got);
  for (int64_t t = 0; t < 12; ++t) {
    want.step(got.g, t);
    got.step(ops, lamb_config(), t);
    for (float& g : got.g) g = 0.7f * g - 0.1f;
    for (size_t i = 0; i < n; ++i) {
      ASSERT_NEAR(got.w[i], want.w[i], 2e-6 * (1 + scale)) << n << ": step " << t << ", " << i;
    }
  }
}

using Lamb = EveryExecution;

TEST_P(Lamb, StepsAreThoseOfThePaper) {
  for (const size_t n : {1, 7, 4096, 4099, 100001}) {
    expect_the_steps_of_the_paper(*ops, n, 1);
    expect_the_steps_of_the_paper(*ops, n, 50);  // the step depends on the norm
  }
  for (const float scale : {0, 3}) expect_the_steps_of_the_paper(*reference, 7, scale);
}

/// A GPU sums the squares of a tensor in at most 256 blocks of 1024 elements at a time.
TEST_P(Lamb, ATensorMayHaveMoreElementsThanItsBlocksTakeTogether) {
  constexpr size_t kCount = 300'001;
  Tensor got(kCount);
  for (size_t i = 0; i < kCount; ++i) got.w[i] *= i < 262'144 ? 1 : 3;
  PaperTensor want(got);
  want.step(got.g, 0);
  got.step(*ops, lamb_config(), 0);
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_NEAR(got.w[i], want.w[i], 2e-6) << i;
    ASSERT_NEAR(got.m[i], want.m[i], 1e-6) << i;
  }
}

TEST_P(Lamb, AZeroNormGivesAStepOfTheLearningRate) {
  expect_the_steps_of_the_paper(*ops, 5, 0);
  OptimizerConfig without_decay = lamb_config();
  without_decay.weight_decay = 0;
  Tensor still(5);
  const std::vector<float> before = still.w;
  for (float& g : still.g) g = 0;
  still.step(*ops, without_decay, 0);
  EXPECT_EQ(still.w, before);
}

TEST_P(Lamb, AnyNumberOfThreadsGivesTheSameBits) {
  if (GetParam().gpu()) GTEST_SKIP() << "threads of a CPU";
  const auto alone = machine.cpu({GetParam().isa, 1});
  Tensor got(150001), want(150001);
  for (int64_t t = 0; t < 3; ++t) {
    got.step(*ops, lamb_config(), t);
    want.step(*alone, lamb_config(), t);
  }
  EXPECT_EQ(got.w, want.w);
  EXPECT_EQ(got.m, want.m);
}

TEST_P(Lamb, EarlierUpdatesOfLongerTensorsChangeNoBit) {
  for (const size_t n : {1, 5, 1024, 1025, 5000}) {
    Tensor alone(n), after(n), longer(70001, 40);
    longer.step(*ops, lamb_config(), 0);
    after.step(*ops, lamb_config(), 0);
    alone.step(*machine.run_as(GetParam()), lamb_config(), 0);
    EXPECT_EQ(after.w, alone.w) << n;
    EXPECT_EQ(after.m, alone.m) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Lamb, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
