#include <functional>

#include "bags.h"

namespace dlrm {
namespace {

/// Compares `gradient` with central differences of Σ weight ⊙ output for each element of `input`.
/// The gradient must have been computed with these weights.
void expect_gradient(Cells& input, Cells& gradient, Cells& output, const Cells& weight,
                     const std::function<void()>& forward) {
  const auto total = [&] {
    forward();
    double sum = 0;
    for (int64_t r = 0; r < output.rows(); ++r) {
      for (int64_t c = 0; c < output.cols(); ++c) {
        sum += double{weight.at(r, c)} * output.at(r, c);
      }
    }
    return sum;
  };
  const float step = 0x1p-6f;
  for (int64_t r = 0; r < input.rows(); ++r) {
    for (int64_t c = 0; c < input.cols(); ++c) {
      const float value = input.at(r, c);
      input.set(r, c, value + step);
      const double above = total();
      input.set(r, c, value - step);
      const double below = total();
      input.set(r, c, value);
      const double width = double{value + step} - double{value - step};
      EXPECT_NEAR((above - below) / width, gradient.at(r, c), 2e-3) << "(" << r << ", " << c << ")";
    }
  }
}

using Gradient = EveryExecution;

TEST_P(Gradient, LossAgreesWithFiniteDifferences) {
  Cells logits = Cells::random(6, 1, 1), d(6, 1), aside(6, 1);
  const std::vector<float> labels = {0, 1, 1, 0, 0.5f, 1}, weights = {1, 0.5f, 3, 0, 2, 0.25f};
  double loss = 0;
  ops->bce_with_logits(logits.matrix(), {labels, weights}, 1, {&loss, 1}, d.matrix());
  const auto at = [&](int64_t r, float value) {
    logits.set(r, 0, value);
    ops->bce_with_logits(logits.matrix(), {labels, weights}, 1, {&loss, 1}, aside.matrix());
    return loss;
  };
  for (int64_t r = 0; r < 6; ++r) {
    const float value = logits.at(r, 0), step = 0x1p-8f;
    const double slope =
        (at(r, value + step) - at(r, value - step)) / (double{value + step} - double{value - step});
    logits.set(r, 0, value);
    EXPECT_NEAR(slope, d.at(r, 0), 1e-5);
  }
}

TEST_P(Gradient, PooledRowsAgreeWithFiniteDifferences) {
  const Bags bags = Bags::random(8, 6, 2, 1, true);
  Table table(6, 3, DType::kFloat32, 2);
  Cells pooled(8, 3), dy = Cells::random(8, 3, 3), rows(6, 3), grads(6, 3);
  RunSpace space(bags.nnz());
  const IdGroup groups[] = {bags.group()};
  ops->group_rows(groups, 6, space.runs());
  const BagGradient gradients[] = {{dy.floats(), bags.scale.data()}};
  ops->embedding_bag_backward(space.runs(), gradients, grads.floats());
  for (int64_t r = 0; r < 6; ++r) {
    for (int64_t c = 0; c < 3; ++c) rows.set(r, c, 0);
  }
  for (int64_t i = 0; i < space.count[0]; ++i) {
    for (int64_t c = 0; c < 3; ++c) {
      rows.set(space.rows[static_cast<size_t>(i)], c, grads.at(i, c));
    }
  }
  expect_gradient(table.weights, rows, pooled, dy, [&] {
    const BagGroup lookup[] = {bags.lookup(table.rows(), pooled.floats())};
    ops->embedding_bag_forward(lookup);
  });
}

INSTANTIATE_TEST_SUITE_P(Cpu, Gradient, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
