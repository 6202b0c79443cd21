#include <algorithm>

#include "fixture.h"

namespace dlrm {
namespace {

using Loss = EveryExecution;

/// Some are 0, some less and some more than 1.
std::vector<float> varied_weights(size_t count) {
  std::vector<float> weights(count);
  for (size_t i = 0; i < count; ++i) weights[i] = static_cast<float>(i % 5) * 0.7f;
  return weights;
}

TEST_P(Loss, SumAndGradientAgreeWithTheReference) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    // The last one: more partial sums than a block has threads.
    for (const int64_t batch : {1, 7, 1024, 3001, 256 * 1024 + 1}) {
      Cells logits = Cells::random(batch, 1, 1, type), d(batch, 1, type), want(batch, 1, type);
      logits.set(0, 0, 80.0f);
      std::vector<float> labels(static_cast<size_t>(batch));
      for (size_t i = 0; i < labels.size(); ++i) labels[i] = i % 3 == 0 ? 1.0f : 0.0f;
      double loss = -1, expected = -1;
      const std::vector<float> weights = varied_weights(labels.size());
      for (const Targets& targets : {Targets{labels, {}}, Targets{labels, weights}}) {
        ops->bce_with_logits(logits.matrix(), targets, 0.01f, {&loss, 1}, d.matrix());
        reference->bce_with_logits(logits.matrix(), targets, 0.01f, {&expected, 1}, want.matrix());
        EXPECT_NEAR(loss, expected, 1e-12 * static_cast<double>(batch));
        EXPECT_TRUE(close(d, want, 1e-3));
      }
    }
  }
}

TEST_P(Loss, WeightsOfOneGiveTheBitsOfNoWeights) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    Cells logits = Cells::random(3001, 1, 1, type), d(3001, 1, type), plain(3001, 1, type);
    std::vector<float> labels(3001, 0.25f);
    const std::vector<float> ones(3001, 1.0f);
    labels[7] = 1;
    double loss = -1, expected = -1;
    ops->bce_with_logits(logits.matrix(), {labels, ones}, 0.01f, {&loss, 1}, d.matrix());
    ops->bce_with_logits(logits.matrix(), {labels, {}}, 0.01f, {&expected, 1}, plain.matrix());
    EXPECT_EQ(loss, expected);
    for (int64_t r = 0; r < 3001; ++r) ASSERT_EQ(d.at(r, 0), plain.at(r, 0)) << r;
  }
}

TEST_P(Loss, AMissingLabelCountsAsAWeightOfZero) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    Cells logits = Cells::random(3001, 1, 1, type), d(3001, 1, type), want(3001, 1, type);
    std::vector<float> labels(3001, 0.25f), there(3001, 1.0f);
    std::vector<float> missing = labels;
    for (size_t i = 0; i < labels.size(); i += i % 4 + 1) missing[i] = std::nanf(""), there[i] = 0;
    double loss = -1, expected = -1;
    ops->bce_with_logits(logits.matrix(), {missing, {}}, 0.01f, {&loss, 1}, d.matrix());
    ops->bce_with_logits(logits.matrix(), {labels, there}, 0.01f, {&expected, 1}, want.matrix());
    EXPECT_EQ(loss, expected);
    for (int64_t r = 0; r < 3001; ++r) ASSERT_EQ(d.at(r, 0), want.at(r, 0)) << r;
    missing.assign(3001, std::nanf(""));
    ops->bce_with_logits(logits.matrix(), {missing, {}}, 0.01f, {&loss, 1}, d.matrix());
    EXPECT_EQ(loss, 0);
  }
}

TEST_P(Loss, AnyNumberOfThreadsGivesTheSameBits) {
  Cells logits = Cells::random(5000, 1, 1), d(5000, 1);
  const std::vector<float> labels(5000, 1.0f);
  double loss = 0, alone = 0;
  ops->bce_with_logits(logits.matrix(), {labels, {}}, 1, {&loss, 1}, d.matrix());
  machine.run_as({GetParam().isa, 1})
      ->bce_with_logits(logits.matrix(), {labels, {}}, 1, {&alone, 1}, d.matrix());
  EXPECT_EQ(loss, alone);
}

TEST_P(Loss, SigmoidIsExactAtBothEnds) {
  Cells logits(4, 1);
  const float at[] = {0, 200, -200, -1};
  for (int64_t i = 0; i < 4; ++i) logits.set(i, 0, at[i]);
  std::vector<float> p(4);
  ops->sigmoid(logits.matrix(), p);
  EXPECT_EQ(p[0], 0.5f);
  EXPECT_EQ(p[1], 1.0f);
  EXPECT_NEAR(p[2], 0.0f, 1e-38);
  EXPECT_FLOAT_EQ(p[3], 0.26894142f);
}

INSTANTIATE_TEST_SUITE_P(Cpu, Loss, testing::ValuesIn(executions()), execution_name);

TEST(ReferenceLoss, ALogitOfZeroGivesLogTwo) {
  Cells logits(1, 1), d(1, 1);
  logits.set(0, 0, 0);
  const float label = 1;
  double loss = 0;
  const Targets targets{{&label, 1}, {}};
  Machine().reference()->bce_with_logits(logits.matrix(), targets, 2, {&loss, 1}, d.matrix());
  EXPECT_DOUBLE_EQ(loss, std::log(2.0));
  EXPECT_EQ(d.at(0, 0), -1.0f);
}

TEST(ReferenceLoss, AMissingLabelAddsNothing) {
  Cells logits(2, 1), d(2, 1);
  logits.set(0, 0, 3), logits.set(1, 0, 0);
  const std::vector<float> labels = {std::nanf(""), 1};
  double loss = 0;
  Machine().reference()->bce_with_logits(logits.matrix(), {labels, {}}, 2, {&loss, 1}, d.matrix());
  EXPECT_DOUBLE_EQ(loss, std::log(2.0));
  EXPECT_EQ(d.at(0, 0), 0.0f);
  EXPECT_EQ(d.at(1, 0), -1.0f);
}

TEST(ReferenceLoss, AWeightMultipliesLossAndGradient) {
  Cells logits(2, 1), d(2, 1);
  logits.set(0, 0, 0), logits.set(1, 0, 0);
  const std::vector<float> labels = {1, 0}, weights = {3, 0.5f};
  double loss = 0;
  Machine().reference()->bce_with_logits(logits.matrix(), {labels, weights}, 2, {&loss, 1},
                                         d.matrix());
  EXPECT_DOUBLE_EQ(loss, 3.5 * std::log(2.0));
  EXPECT_EQ(d.at(0, 0), -3.0f);
  EXPECT_EQ(d.at(1, 0), 0.5f);
}

}  // namespace
}  // namespace dlrm
