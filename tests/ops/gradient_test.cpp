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

TEST_P(Gradient, LinearLayerAgreesWithFiniteDifferences) {
  Cells x = Cells::random(3, 5, 1), w = Cells::random(4, 5, 2), bias = Cells::random(1, 4, 3);
  Cells y(3, 4), dz = Cells::random(3, 4, 4), dx(3, 5), dw(4, 5), db(1, 4);
  const auto forward = [&] {
    ops->linear_forward(x.matrix(), w.matrix(), {bias.floats().data, 4}, Activation::kNone,
                        y.matrix(), {});
  };
  ops->linear_backward_input(dz.matrix(), w.matrix(), dx.matrix());
  ops->linear_backward_weight(dz.matrix(), x.matrix(), dw.floats(), {db.floats().data, 4});
  expect_gradient(x, dx, y, dz, forward);
  expect_gradient(w, dw, y, dz, forward);
  expect_gradient(bias, db, y, dz, forward);
}

TEST_P(Gradient, ReluAgreesWithFiniteDifferences) {
  Cells x = Cells::random(4, 6, 1), w(6, 6), y(4, 6), dy = Cells::random(4, 6, 2);
  for (int64_t r = 0; r < 6; ++r) {
    for (int64_t c = 0; c < 6; ++c) w.set(r, c, r == c ? 1 : 0);
  }
  for (int64_t r = 0; r < 4; ++r) {
    for (int64_t c = 0; c < 6; ++c) {
      const float value = x.at(r, c);  // keeps a distance from the kink
      x.set(r, c, std::abs(value) < 0.1f ? 0.5f : value);
    }
  }
  const auto forward = [&] {
    ops->linear_forward(x.matrix(), w.matrix(), {}, Activation::kRelu, y.matrix(), {});
  };
  forward();
  Cells dx = dy;
  ops->activation_backward(Activation::kRelu, y.matrix(), {}, dx.matrix());
  expect_gradient(x, dx, y, dy, forward);
}

TEST_P(Gradient, DotInteractionAgreesWithFiniteDifferences) {
  Cells x = Cells::random(2, 5, 1), e = Cells::random(2, 15, 2), z(2, 11);
  Cells dz = Cells::random(2, 11, 3), dx(2, 5), de(2, 15);
  const auto forward = [&] { ops->dot_forward(x.matrix(), e.matrix(), z.matrix()); };
  ops->dot_backward(x.matrix(), e.matrix(), dz.matrix(), dx.matrix(), de.matrix());
  expect_gradient(x, dx, z, dz, forward);
  expect_gradient(e, de, z, dz, forward);
}

TEST_P(Gradient, FmInteractionAgreesWithFiniteDifferences) {
  Cells x = Cells::random(2, 5, 1), e = Cells::random(2, 15, 2), z(2, 21);
  Cells dz = Cells::random(2, 21, 3), dx(2, 5), de(2, 15);
  const auto forward = [&] { ops->run(FmForward{x.matrix(), e.matrix(), z.matrix()}); };
  ops->run(FmBackward{x.matrix(), e.matrix(), dz.matrix(), dx.matrix(), de.matrix()});
  expect_gradient(x, dx, z, dz, forward);
  expect_gradient(e, de, z, dz, forward);
}

TEST_P(Gradient, AveragePoolAgreesWithFiniteDifferences) {
  Cells e = Cells::random(2, 16, 1), y(2, 3), dy = Cells::random(2, 3, 2), de(2, 16);
  ops->average_pool_backward(dy.matrix(), 7, de.matrix());
  expect_gradient(e, de, y, dy, [&] { ops->average_pool_forward(e.matrix(), 7, y.matrix()); });
}

TEST_P(Gradient, CrossLayerAgreesWithFiniteDifferences) {
  Cells x0 = Cells::random(3, 5, 1), t = Cells::random(3, 5, 2);
  Cells y(3, 5), dy = Cells::random(3, 5, 4), du(3, 5), first(3, 5), dx0(3, 5);
  const auto forward = [&] { ops->cross_forward(x0.matrix(), t.matrix(), y.matrix()); };
  ops->cross_backward(x0.matrix(), dy.matrix(), du.matrix());
  ops->cross_input_backward(x0.matrix(), t.matrix(), {}, dy.matrix(), first.matrix(), dx0.matrix());
  expect_gradient(x0, dx0, y, dy, forward);
  expect_gradient(t, du, y, dy, forward);
  expect_gradient(t, first, y, dy, forward);
}

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
