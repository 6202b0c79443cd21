#include "checked/checked_ops.h"
#include "checked/row_copies.h"

namespace dlrm::checked {
namespace {

std::string shape_of(const LinearGradients& l) {
  return fmt::format("[{} x {}] by [{} x {}] in {}", l.dy.rows, l.dy.cols, l.w.rows, l.w.cols,
                     name_of(l.x.type));
}

/// A parameter as a table of one row.
RowTable as_table(const DenseTensor& t) {
  RowTable table;
  table.weights = t.values.data();
  table.rows = 1;
  table.width = table.stride = table.state_stride = static_cast<int64_t>(t.values.size());
  table.state1 = t.state1.data();
  table.state2 = t.state2.data();
  return table;
}

/// One parameter's update, done again by the reference.
class UpdateAgain {
 public:
  UpdateAgain(const OptimizerStep& step, const DenseTensor& tensor)
      : step_(step),
        tensor_(tensor),
        before_(step, as_table(tensor), {&kRow, 1}),
        want_(step, as_table(tensor), {&kRow, 1}) {}

  void compare(const Subject& subject, Ops& reference, const Copy& gradient) {
    const RowTable table = as_table(tensor_);
    want_.update(reference, step_, {gradient.floats().data, 1, table.width}, false, {},
                 table.width);
    want_.compare(subject, step_, table, before_);
    for (size_t i = 0; i < tensor_.copy.size(); ++i) {
      const BFloat16 rounded(tensor_.values[i]);
      if (tensor_.copy[i].bits == rounded.bits) continue;
      disagree(subject, fmt::format("bf16 copy {}", i), static_cast<float>(tensor_.copy[i]),
               static_cast<float>(rounded));
    }
  }

 private:
  static constexpr int64_t kRow = 0;
  const OptimizerStep& step_;
  const DenseTensor& tensor_;
  RowCopies before_, want_;
};

/// What one backward writes, elsewhere.
struct Results {
  Copy dy, dx, dw, dbias;

  explicit Results(const LinearGradients& l)
      : dy(Copy::of(l.dy)),
        dx(Copy::empty_like(l.dx, l.dx.data ? l.dx.type : DType::kFloat32)),
        dw(l.dw.rows, l.dw.cols, DType::kFloat32),
        dbias(1, static_cast<int64_t>(l.dbias.size()), DType::kFloat32) {}

  LinearGradients in_place_of(LinearGradients l) const {
    l.dy = dy.matrix();
    if (l.dx.data) l.dx = dx.matrix();
    l.dw = dw.floats();
    l.dbias = {dbias.floats().data, l.dbias.size()};
    return l;
  }
};

auto sums(int64_t terms, const Copy& magnitude) {
  return [terms, &magnitude](int64_t r, int64_t c) { return summing(terms, magnitude.at(r, c)); };
}

/// `got` beside `want`, the reference's; `sizes` are the sums of magnitudes.
void compare(const Subject& s, const LinearGradients& got, const Results& want,
             const Results& sizes) {
  if (got.dx.data) {
    expect_close(s, "dx", got.dx, want.dx.matrix(), sums(got.dy.cols, sizes.dx));
  }
  expect_close(s, "dw", got.dw, want.dw.matrix(), sums(got.dy.rows, sizes.dw));
  expect_close(s, "dbias", as_row(got.dbias), want.dbias.matrix(), sums(got.dy.rows, sizes.dbias));
}

}  // namespace

void CheckedOps::linear_backward(const LinearGradients& layer) {
  run_backward(subject("linear_backward", shape_of(layer)), layer);
}

void CheckedOps::run_backward(const Subject& s, const LinearGradients& layer) {
  const Results want(layer), sizes(layer);
  const LinearGradients again = want.in_place_of(layer);
  chosen_->linear_backward(layer);
  stream_.synchronize();
  reference_.linear_backward(again);
  LinearGradients magnitudes = sizes.in_place_of(layer);
  const Copy dz = Copy::magnitude(again.dy), x = Copy::magnitude(layer.x),
             w = Copy::magnitude(layer.w);
  magnitudes.act = Act::kNone;
  magnitudes.dy = dz.matrix();
  magnitudes.x = x.matrix();
  magnitudes.w = w.matrix();
  reference_.linear_backward(magnitudes);
  compare(s, layer, want, sizes);
}

void CheckedOps::linear_backward_update(const OptimizerStep& step, const LinearGradients& layer,
                                        const DenseTensor& weight, const DenseTensor& bias) {
  // The gradients that were applied: the same operation's without the update, checked themselves.
  const Results kept(layer);
  const Subject s = subject("linear_backward_update", shape_of(layer));
  run_backward(s, kept.in_place_of(layer));
  UpdateAgain weights(step, weight), biases(step, bias);
  chosen_->linear_backward_update(step, layer, weight, bias);
  stream_.synchronize();
  if (layer.dx.data) {
    expect_close(s, "dx", layer.dx, kept.dx.matrix(), [](int64_t, int64_t) { return 0.0; });
  }
  weights.compare(s, reference_, kept.dw);
  if (!layer.dbias.empty()) biases.compare(s, reference_, kept.dbias);
}

}  // namespace dlrm::checked
