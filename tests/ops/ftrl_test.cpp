#include <cmath>
#include <random>

#include "fixture.h"

namespace dlrm {
namespace {

OptimizerConfig ftrl_config() {
  OptimizerConfig config;
  config.type = OptimizerRule::kFtrl;
  config.beta = 0.7;
  config.l1 = 0.2;
  config.l2 = 0.3;
  return config;
}

/// Rows whose weights and state have no gaps.
struct Rows {
  int64_t rows, width;
  std::vector<float> w, z, n, g;

  Rows(int64_t rows_, int64_t width_) : rows(rows_), width(width_) {
    const auto size = static_cast<size_t>(rows * width);
    w.resize(size), z.resize(size), g.resize(size);
    n.resize(size, 0.1f);
  }
  void step(Ops& ops, double lr) {
    RowTable table;
    table.weights = w.data();
    table.rows = rows;
    table.width = table.stride = table.state_stride = width;
    table.state1 = z.data();
    table.state2 = n.data();
    std::vector<int64_t> all;
    for (int64_t r = 0; r < rows; ++r) all.push_back(r);
    ops.sparse_update(optimizer_step(ftrl_config(), lr, 0), table, all, {&rows, 1},
                      {g.data(), rows, width}, {}, width);
  }
};

/// Algorithm 1 of McMahan et al. (2013) for one coordinate, starting from a z that preserves the
/// initial weight.
struct PaperCoordinate {
  double w, z, n;

  PaperCoordinate(double w0, double n0, double lr) : w(w0), n(n0) {
    const OptimizerConfig c = ftrl_config();
    z = -w * ((c.beta + std::sqrt(n)) / lr + c.l2) - (w < 0 ? -c.l1 : c.l1);
  }
  void step(double g, double lr) {
    const OptimizerConfig c = ftrl_config();
    const double sigma = (std::sqrt(n + g * g) - std::sqrt(n)) / lr;
    z += g - sigma * w;
    n += g * g;
    w = 0;
    if (std::abs(z) > c.l1) {
      w = -(z - (z < 0 ? -c.l1 : c.l1)) / ((c.beta + std::sqrt(n)) / lr + c.l2);
    }
  }
};

using Ftrl = EveryExecution;

void expect_the_steps_of_the_paper(Ops& ops, int64_t rows, int64_t width) {
  constexpr double kRate = 0.5;
  Rows got(rows, width);
  std::mt19937 generator(3);
  std::normal_distribution<float> normal;
  std::vector<PaperCoordinate> want;
  for (size_t i = 0; i < got.w.size(); ++i) {
    got.w[i] = 0.3f * normal(generator);
    want.emplace_back(got.w[i], got.n[i], kRate);
  }
  size_t zeros = 0;
  for (int t = 0; t < 60; ++t) {
    for (size_t i = 0; i < got.g.size(); ++i) {
      got.g[i] = 0.3f * normal(generator) + 0.1f * got.w[i];
      want[i].step(got.g[i], kRate);
    }
    got.step(ops, kRate);
    for (size_t i = 0; i < got.g.size(); ++i) {
      ASSERT_NEAR(got.w[i], want[i].w, 2e-5) << "step " << t << ", weight " << i;
      ASSERT_NEAR(got.z[i], want[i].z, 2e-4) << "step " << t << ", weight " << i;
      ASSERT_NEAR(got.n[i], want[i].n, 1e-5 * want[i].n) << "step " << t << ", weight " << i;
      zeros += got.w[i] == 0;
    }
  }
  // l1 keeps some weights at 0 for some steps.
  if (got.w.size() > 1) {
    EXPECT_GT(zeros, got.w.size());
  }
}

TEST_P(Ftrl, StepsAreThoseOfThePaper) {
  for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{1, 1}, {3, 7}, {5, 33}}) {
    expect_the_steps_of_the_paper(*ops, rows, width);
    expect_the_steps_of_the_paper(*reference, rows, width);
  }
}

TEST_P(Ftrl, WeightsAreKeptWhenTheLearningRateChanges) {
  Rows rows(2, 17);
  for (size_t i = 0; i < rows.w.size(); ++i) {
    rows.w[i] = i % 3 == 0 ? 0 : 0.01f * static_cast<float>(i) - 0.2f;
    rows.g[i] = 0;
  }
  const std::vector<float> before = rows.w;
  for (const double lr : {0.5, 1e-3, 1e-39, 0.0, 2.0}) {
    rows.step(*ops, lr);
    EXPECT_EQ(rows.w, before) << lr;
    for (const float z : rows.z) EXPECT_TRUE(std::isfinite(z)) << lr;
  }
}

TEST_P(Ftrl, AWeightStaysAtZeroUntilItsGradientsExceedL1) {
  Rows row(1, 1);
  row.g[0] = 0.15f;
  row.step(*ops, 0.5);
  EXPECT_EQ(row.w[0], 0);
  row.step(*ops, 0.5);
  const double n = 0.1 + 2 * 0.15 * 0.15;
  EXPECT_NEAR(row.w[0], -(0.3 - 0.2) / ((0.7 + std::sqrt(n)) / 0.5 + 0.3), 1e-6);
}

TEST_P(Ftrl, ANanStaysANan) {
  Rows rows(1, 3);
  rows.w = {0.5f, 0, -0.5f};
  rows.g = {NAN, NAN, 0.1f};
  rows.step(*ops, 0.5);
  EXPECT_TRUE(std::isnan(rows.w[0]) && std::isnan(rows.w[1]));
  EXPECT_FALSE(std::isnan(rows.w[2]));
}

INSTANTIATE_TEST_SUITE_P(Cpu, Ftrl, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
