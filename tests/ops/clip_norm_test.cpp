#include <cmath>

#include "fixture.h"

namespace dlrm {
namespace {

std::vector<float> drawn(size_t n, float scale = 1) {
  std::mt19937 generator(static_cast<unsigned>(n));
  std::normal_distribution<float> normal;
  std::vector<float> g(n);
  for (float& x : g) x = scale * normal(generator);
  return g;
}

double norm_of(const std::vector<float>& g) {
  double squares = 0;
  for (const float x : g) squares += double{x} * x;
  return std::sqrt(squares);
}

using Clipping = EveryExecution;

TEST_P(Clipping, AGradientThatIsTooLongGetsTheFactorOfPyTorch) {
  for (const size_t n : {1, 3, 16, 4096, 4097, 70001, 300001}) {
    const std::vector<float> before = drawn(n, 3);
    const double most = 0.4 * norm_of(before), factor = most / (norm_of(before) + 1e-6);
    for (Ops* by : {ops.get(), reference.get()}) {
      std::vector<float> g = before;
      by->clip_norm(g, most);
      for (size_t i = 0; i < n; ++i) {
        ASSERT_NEAR(g[i], factor * before[i], 2e-7 * std::abs(before[i])) << by->name() << n;
      }
    }
  }
}

TEST_P(Clipping, AShorterGradientKeepsItsBits) {
  for (const size_t n : {1, 5, 40001}) {
    const std::vector<float> before = drawn(n);
    std::vector<float> g = before;
    ops->clip_norm(g, 1.01 * norm_of(before));
    EXPECT_EQ(g, before) << n;
  }
}

TEST_P(Clipping, ASquareBeyondFp32IsSummed) {
  std::vector<float> g(40, 1e30f);
  ops->clip_norm(g, 2);
  for (const float x : g) EXPECT_NEAR(x, 2 / std::sqrt(40.0), 1e-6);
}

/// Otherwise the tensor that diverged could not be named.
TEST_P(Clipping, ANormThatIsNotFiniteClipsNothing) {
  for (const float bad : {HUGE_VALF, -HUGE_VALF, std::nanf("")}) {
    std::vector<float> g(40, 3.0f);
    g[17] = bad;
    ops->clip_norm(g, 1);
    EXPECT_EQ(g[16], 3);
    EXPECT_EQ(std::isnan(bad) ? std::isnan(g[17]) : g[17] == bad, true);
  }
}

TEST_P(Clipping, AnyNumberOfThreadsGivesTheSameBits) {
  if (GetParam().gpu()) GTEST_SKIP() << "threads of a CPU";
  std::vector<float> got = drawn(150001), want = got;
  ops->clip_norm(got, 7);
  machine.cpu({GetParam().isa, 1})->clip_norm(want, 7);
  EXPECT_EQ(got, want);
}

INSTANTIATE_TEST_SUITE_P(All, Clipping, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
