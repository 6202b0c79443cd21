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

const auto kExactly = [](int64_t, int64_t) { return 0.0; };

}  // namespace

void CheckedOps::linear_forward(Matrix x, Matrix w, View<const float> bias, Act act, Matrix y,
                                Matrix z) {
  chosen_->linear_forward(x, w, bias, act, y, z);
  stream_.synchronize();
  const Copy want = Copy::empty_like(y, y.type), sizes = Copy::empty_like(y, DType::kFloat32);
  const Copy want_z = Copy::empty_like(y, y.type);
  reference_.linear_forward(x, w, bias, act, want.matrix(), want_z.matrix());
  const Copy bias_size = Copy::magnitude(as_row(bias));
  reference_.linear_forward(Copy::magnitude(x).matrix(), Copy::magnitude(w).matrix(),
                            {bias_size.floats().data, bias.size()}, Act::kNone, sizes.matrix(), {});
  expect_close(subject("linear_forward", product_shape(x, w)), "y", y, want.matrix(),
               sums(x.cols, sizes));
}

void CheckedOps::linear_backward_input(Matrix dz, Matrix w, Matrix dx) {
  chosen_->linear_backward_input(dz, w, dx);
  stream_.synchronize();
  const Copy want = Copy::empty_like(dx, dx.type), sizes = Copy::empty_like(dx, DType::kFloat32);
  reference_.linear_backward_input(dz, w, want.matrix());
  reference_.linear_backward_input(Copy::magnitude(dz).matrix(), Copy::magnitude(w).matrix(),
                                   sizes.matrix());
  expect_close(subject("linear_backward_input", product_shape(dz, w)), "dx", dx, want.matrix(),
               sums(dz.cols, sizes));
}

void CheckedOps::linear_backward_weight(Matrix dz, Matrix x, MatrixView<float> dw,
                                        View<float> dbias) {
  chosen_->linear_backward_weight(dz, x, dw, dbias);
  stream_.synchronize();
  const auto n = static_cast<int64_t>(dbias.size());
  const Copy want(dw.rows, dw.cols, DType::kFloat32), sizes(dw.rows, dw.cols, DType::kFloat32);
  const Copy want_bias(1, n, DType::kFloat32), bias_sizes(1, n, DType::kFloat32);
  reference_.linear_backward_weight(dz, x, want.floats(), {want_bias.floats().data, dbias.size()});
  reference_.linear_backward_weight(Copy::magnitude(dz).matrix(), Copy::magnitude(x).matrix(),
                                    sizes.floats(), {bias_sizes.floats().data, dbias.size()});
  const Subject s = subject("linear_backward_weight", product_shape(dz, x));
  expect_close(s, "dw", dw, want.matrix(), sums(dz.rows, sizes));
  expect_close(s, "dbias", as_row(dbias), want_bias.matrix(), sums(dz.rows, bias_sizes));
}

void CheckedOps::activation_backward(Act act, Matrix y, Matrix z, Matrix dy) {
  const Copy want = Copy::of(dy);
  chosen_->activation_backward(act, y, z, dy);
  stream_.synchronize();
  reference_.activation_backward(act, y, z, want.matrix());
  expect_close(subject("activation_backward", shape_of(dy)), "dy", dy, want.matrix(), kExactly);
}

void CheckedOps::dot_forward(Matrix x, MatrixView<const float> e, Matrix z) {
  chosen_->dot_forward(x, e, z);
  stream_.synchronize();
  const Copy want = Copy::empty_like(z, z.type), sizes = Copy::empty_like(z, DType::kFloat32);
  reference_.dot_forward(x, e, want.matrix());
  reference_.dot_forward(Copy::magnitude(x).matrix(), Copy::magnitude(e).floats(), sizes.matrix());
  expect_close(subject("dot_forward", product_shape(x, read_only(e))), "z", z, want.matrix(),
               sums(x.cols, sizes));
}

void CheckedOps::dot_backward(Matrix x, MatrixView<const float> e, Matrix dz, Matrix dx,
                              MatrixView<float> de) {
  chosen_->dot_backward(x, e, dz, dx, de);
  stream_.synchronize();
  const Copy want_dx = Copy::empty_like(dx, dx.type),
             want_de = Copy::empty_like(de, DType::kFloat32);
  const Copy dx_sizes = Copy::empty_like(dx, DType::kFloat32);
  const Copy de_sizes = Copy::empty_like(de, DType::kFloat32);
  reference_.dot_backward(x, e, dz, want_dx.matrix(), want_de.floats());
  reference_.dot_backward(Copy::magnitude(x).matrix(), Copy::magnitude(e).floats(),
                          Copy::magnitude(dz).matrix(), dx_sizes.matrix(), de_sizes.floats());
  const int64_t terms = x.cols == 0 ? 1 : 1 + e.cols / x.cols;
  const Subject s = subject("dot_backward", product_shape(x, read_only(e)));
  expect_close(s, "dx", dx, want_dx.matrix(), sums(terms, dx_sizes));
  expect_close(s, "de", de, want_de.matrix(), sums(terms, de_sizes));
}

void CheckedOps::average_pool_forward(MatrixView<const float> e, int64_t window, Matrix y) {
  chosen_->average_pool_forward(e, window, y);
  stream_.synchronize();
  const Copy want = Copy::empty_like(y, y.type), sizes = Copy::empty_like(y, DType::kFloat32);
  reference_.average_pool_forward(e, window, want.matrix());
  reference_.average_pool_forward(Copy::magnitude(e).floats(), window, sizes.matrix());
  expect_close(subject("average_pool_forward", shape_of(read_only(e))), "y", y, want.matrix(),
               sums(window, sizes));
}

void CheckedOps::average_pool_backward(Matrix dy, int64_t window, MatrixView<float> de) {
  chosen_->average_pool_backward(dy, window, de);
  stream_.synchronize();
  const Copy want = Copy::empty_like(de, DType::kFloat32);
  reference_.average_pool_backward(dy, window, want.floats());
  expect_close(subject("average_pool_backward", shape_of(dy)), "de", de, want.matrix(), kExactly);
}

void CheckedOps::cross_forward(Matrix x0, Matrix u, Matrix x, Matrix y) {
  chosen_->cross_forward(x0, u, x, y);
  stream_.synchronize();
  const Copy want = Copy::empty_like(y, y.type), sizes = Copy::empty_like(y, DType::kFloat32);
  reference_.cross_forward(x0, u, x, want.matrix());
  reference_.cross_forward(Copy::magnitude(x0).matrix(), Copy::magnitude(u).matrix(),
                           Copy::magnitude(x).matrix(), sizes.matrix());
  expect_close(subject("cross_forward", shape_of(y)), "y", y, want.matrix(), sums(2, sizes));
}

void CheckedOps::cross_backward(Matrix x0, Matrix u, Matrix dy, Matrix du, Matrix dx0) {
  const Copy want_dx0 = Copy::of(dx0), sizes = Copy::magnitude(dx0);
  chosen_->cross_backward(x0, u, dy, du, dx0);
  stream_.synchronize();
  const Copy want_du = Copy::empty_like(du, du.type);
  const Copy du_sizes = Copy::empty_like(du, DType::kFloat32);
  reference_.cross_backward(x0, u, dy, want_du.matrix(), want_dx0.matrix());
  reference_.cross_backward(Copy::magnitude(x0).matrix(), Copy::magnitude(u).matrix(),
                            Copy::magnitude(dy).matrix(), du_sizes.matrix(), sizes.matrix());
  const Subject s = subject("cross_backward", shape_of(dy));
  expect_close(s, "du", du, want_du.matrix(), kExactly);
  expect_close(s, "dx0", dx0, want_dx0.matrix(), sums(2, sizes));
}

void CheckedOps::bce_with_logits(Matrix logits, View<const float> labels, float scale,
                                 View<double> loss, Matrix dlogits) {
  chosen_->bce_with_logits(logits, labels, scale, loss, dlogits);
  stream_.synchronize();
  const Copy want = Copy::empty_like(dlogits, dlogits.type);
  double expected = 0;
  reference_.bce_with_logits(logits, labels, scale, {&expected, 1}, want.matrix());
  const Subject s = subject("bce_with_logits", shape_of(logits));
  if (!agree(loss[0], expected, 1e-6 * std::abs(expected) + 1e-12)) {
    disagree(s, "the loss", loss[0], expected);
  }
  const double step = 0x1p-21 * std::abs(double{scale});  // of σ(l) - y, both in [0, 1]
  expect_close(s, "dlogits", dlogits, want.matrix(), [=](int64_t, int64_t) { return step; });
}

void CheckedOps::sigmoid(Matrix logits, View<float> p) {
  chosen_->sigmoid(logits, p);
  stream_.synchronize();
  const Copy want(1, logits.rows, DType::kFloat32);
  reference_.sigmoid(logits, {want.floats().data, static_cast<size_t>(logits.rows)});
  expect_close(subject("sigmoid", shape_of(logits)), "p",
               as_row(p.first(static_cast<size_t>(logits.rows))), want.matrix(),
               [](int64_t, int64_t) { return 0x1p-21; });
}

}  // namespace dlrm::checked

namespace dlrm {

std::unique_ptr<Ops> make_checked_ops(std::unique_ptr<Ops> chosen, Device& device, Stream& stream) {
  DLRM_CHECK(device.is_cpu(), "the reference reads this machine's memory");
  return std::make_unique<checked::CheckedOps>(std::move(chosen), device, stream);
}

}  // namespace dlrm
