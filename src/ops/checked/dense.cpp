#include <algorithm>

#include "checked/checked_ops.h"

namespace dlrm::checked {
namespace {

std::string product_shape(const Matrix& x, const Matrix& w) {
  return fmt::format("[{} x {}] by [{} x {}] in {}", x.rows, x.cols, w.rows, w.cols,
                     name_of(x.type));
}

std::string shape_of(const Matrix& m) {
  return fmt::format("[{} x {}] in {}", m.rows, m.cols, name_of(m.type));
}

/// The error of sums of `terms` products, by the magnitudes that the reference summed.
auto sums(int64_t terms, const Copy& magnitude) {
  return [terms, &magnitude](int64_t r, int64_t c) { return summing(terms, magnitude.at(r, c)); };
}

/// What `before` allows of z, after the activation: its slope is below 1.13, it is computed to a
/// few units, and it may be taken of z rounded to `type`.
template <class Before>
auto through(Act act, DType type, const Before& before, const Copy& sizes) {
  const bool smooth = act != Act::kNone && act != Act::kRelu;
  const double step = type == DType::kFloat32 ? 0x1p-21 : 0x1p-8;
  return [=, &sizes](int64_t r, int64_t c) {
    if (!smooth) return before(r, c);
    return 1.13 * (before(r, c) + step * sizes.at(r, c)) + 0x1p-21;
  };
}

}  // namespace

void CheckedOps::linear_forward(Matrix x, Matrix w, View<const float> bias, Act act, Matrix y,
                                Matrix z) {
  chosen_->linear_forward(x, w, bias, act, y, z);
  const Copy in = host_.of(x), weights = host_.of(w), added = host_.of(as_row(bias));
  const Copy want = Copy::empty_like(y, y.type), want_z = Copy::empty_like(y, y.type);
  const Copy sizes = Copy::empty_like(y, DType::kFloat32);
  const auto row = [](const Copy& c) {
    return View<const float>(c.floats().data, static_cast<size_t>(c.matrix().cols));
  };
  reference_.linear_forward(in.matrix(), weights.matrix(), row(added), act, want.matrix(),
                            want_z.matrix());
  reference_.linear_forward(Copy::magnitude(in.matrix()).matrix(),
                            Copy::magnitude(weights.matrix()).matrix(),
                            row(Copy::magnitude(added.matrix())), Act::kNone, sizes.matrix(), {});
  const bool rounds_bias = y.type == DType::kBFloat16 && !bias.empty();
  const auto of_z = [&, of_sum = sums(x.cols, sizes)](int64_t r, int64_t c) {
    return of_sum(r, c) + (rounds_bias ? 0x1p-8 * std::abs(added.at(0, c)) : 0.0);
  };
  const Subject s = subject("linear_forward", product_shape(x, w));
  if (needs_input(act)) expect_close(s, "z", host_.of(z).matrix(), want_z.matrix(), of_z);
  expect_close(s, "y", host_.of(y).matrix(), want.matrix(), through(act, y.type, of_z, sizes));
}

void CheckedOps::linear_backward_input(Matrix dz, Matrix w, Matrix dx) {
  chosen_->linear_backward_input(dz, w, dx);
  const Copy want = Copy::empty_like(dx, dx.type), sizes = Copy::empty_like(dx, DType::kFloat32);
  reference_.linear_backward_input(host_.of(dz).matrix(), host_.of(w).matrix(), want.matrix());
  reference_.linear_backward_input(host_.magnitude(dz).matrix(), host_.magnitude(w).matrix(),
                                   sizes.matrix());
  expect_close(subject("linear_backward_input", product_shape(dz, w)), "dx", host_.of(dx).matrix(),
               want.matrix(), sums(dz.cols, sizes));
}

void CheckedOps::linear_backward_weight(Matrix dz, Matrix x, MatrixView<float> dw,
                                        View<float> dbias) {
  chosen_->linear_backward_weight(dz, x, dw, dbias);
  const auto n = static_cast<int64_t>(dbias.size());
  const Copy want(dw.rows, dw.cols, DType::kFloat32), sizes(dw.rows, dw.cols, DType::kFloat32);
  const Copy want_bias(1, n, DType::kFloat32), bias_sizes(1, n, DType::kFloat32);
  reference_.linear_backward_weight(host_.of(dz).matrix(), host_.of(x).matrix(), want.floats(),
                                    {want_bias.floats().data, dbias.size()});
  reference_.linear_backward_weight(host_.magnitude(dz).matrix(), host_.magnitude(x).matrix(),
                                    sizes.floats(), {bias_sizes.floats().data, dbias.size()});
  const Subject s = subject("linear_backward_weight", product_shape(dz, x));
  expect_close(s, "dw", host_.of(dw).matrix(), want.matrix(), sums(dz.rows, sizes));
  expect_close(s, "dbias", host_.of(as_row(dbias)).matrix(), want_bias.matrix(),
               sums(dz.rows, bias_sizes));
}

void CheckedOps::activation_backward(Act act, Matrix y, Matrix z, Matrix dy) {
  const Copy want = host_.of(dy), before = host_.of(dy);
  chosen_->activation_backward(act, y, z, dy);
  reference_.activation_backward(act, host_.of(y).matrix(), host_.of(z).matrix(), want.matrix());
  const double step = act == Act::kNone || act == Act::kRelu ? 0 : 0x1p-20;
  expect_close(subject("activation_backward", shape_of(dy)), "dy", host_.of(dy).matrix(),
               want.matrix(),
               [&](int64_t r, int64_t c) { return step * std::abs(before.at(r, c)); });
}

void CheckedOps::bce_with_logits(Matrix logits, View<const float> labels, float scale,
                                 View<double> loss, Matrix dlogits) {
  chosen_->bce_with_logits(logits, labels, scale, loss, dlogits);
  const Copy want = Copy::empty_like(dlogits, dlogits.type);
  double expected = 0;
  reference_.bce_with_logits(host_.of(logits).matrix(), host_.of(labels), scale, {&expected, 1},
                             want.matrix());
  const Subject s = subject("bce_with_logits", shape_of(logits));
  const double sum = host_.of(loss.first(1))[0];
  if (!agree(sum, expected, 1e-6 * std::abs(expected) + 1e-12)) {
    disagree(s, "the loss", sum, expected);
  }
  const double step = 0x1p-21 * std::abs(double{scale});  // of σ(l) - y, both in [0, 1]
  expect_close(s, "dlogits", host_.of(dlogits).matrix(), want.matrix(),
               [=](int64_t, int64_t) { return step; });
}

void CheckedOps::sigmoid(Matrix logits, View<float> p) {
  chosen_->sigmoid(logits, p);
  const Copy want(1, logits.rows, DType::kFloat32);
  reference_.sigmoid(host_.of(logits).matrix(),
                     {want.floats().data, static_cast<size_t>(logits.rows)});
  expect_close(subject("sigmoid", shape_of(logits)), "p",
               host_.of(as_row(p.first(static_cast<size_t>(logits.rows)))).matrix(), want.matrix(),
               [](int64_t, int64_t) { return 0x1p-21; });
}

}  // namespace dlrm::checked
