#include "checked/checked_ops.h"

namespace dlrm::checked {
namespace {

std::string product_shape(const Matrix& x, const Matrix& w) {
  return fmt::format("[{} x {}] by [{} x {}] in {}", x.rows, x.cols, w.rows, w.cols,
                     name_of(x.type));
}

/// The error after the activation if z has the error `before`. The activation's slope is below
/// 1.13. The activation is computed to a few units in the last place, possibly from z rounded to
/// `type`.
template <class Before>
auto through(Activation act, DType type, const Before& before, const Copy& sizes) {
  const bool smooth = act != Activation::kNone && act != Activation::kRelu;
  // Two units of fp32, or half a unit of a shorter type.
  const double step = size_of(type) == sizeof(float) ? 0x1p-21 : rounding(type, 1) / 2;
  return [=, &sizes](int64_t r, int64_t c) {
    if (!smooth) return before(r, c);
    return 1.13 * (before(r, c) + step * sizes.at(r, c)) + 0x1p-21;
  };
}

}  // namespace

void CheckedOps::check(const LinearForward& o) {
  const auto& [x, w, bias, act, y, z, added, rounded_bias, mask] = o;
  const Copy in = host_.of(x), weights = host_.of(w), biases = host_.of(as_row(bias));
  const Copy more = host_.of(added);
  chosen_->run(o);
  const Copy want = Copy::empty_like(y, y.type), want_z = Copy::empty_like(y, y.type);
  const Copy sizes = Copy::empty_like(y, DType::kFloat32);
  const auto row = [](const Copy& c) {
    return View<const float>(c.floats().data, static_cast<size_t>(c.matrix().cols));
  };
  const auto or_none = [&](const Copy& c) { return added.data ? c.matrix() : Matrix(); };
  reference_.run(LinearForward{in.matrix(), weights.matrix(), row(biases), act, want.matrix(),
                               want_z.matrix(), or_none(more)});
  const Copy biases_size = Copy::magnitude(biases.matrix());
  const Copy more_size = Copy::magnitude(more.matrix());
  reference_.run(LinearForward{Copy::magnitude(in.matrix()).matrix(),
                               Copy::magnitude(weights.matrix()).matrix(),
                               row(biases_size),
                               Activation::kNone,
                               sizes.matrix(),
                               {},
                               or_none(more_size)});
  const bool rounds_bias = y.type == DType::kBFloat16 && !bias.empty();
  const auto of_z = [&, of_sum = sums(x.cols, sizes)](int64_t r, int64_t c) {
    return of_sum(r, c) + (rounds_bias ? 0x1p-8 * std::abs(biases.at(0, c)) : 0.0);
  };
  const Subject s = subject("linear_forward", product_shape(x, w));
  if (needs_input(act)) expect_close(s, "z", host_.of(z).matrix(), want_z.matrix(), of_z);
  expect_close(s, "y", host_.of(y).matrix(), want.matrix(), through(act, y.type, of_z, sizes));
}

}  // namespace dlrm::checked
