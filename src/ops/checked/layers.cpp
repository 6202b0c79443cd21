#include "checked/checked_ops.h"
#include "checked/row_copies.h"

namespace dlrm::checked {
namespace {

std::string shape_of(const LinearBackward& l) {
  return fmt::format("[{} x {}] by [{} x {}] in {}", l.dy.rows, l.dy.cols, l.w.rows, l.w.cols,
                     name_of(l.x.type));
}

/// The operands and results of a layer's backward in the host's memory.
struct HostLayer {
  Activation act;
  Copy y, z, dy, x, w, added, dx, dw, dbias;

  HostLayer(HostImage& host, const LinearBackward& l)
      : act(l.act),
        y(host.of(l.act == Activation::kNone ? Matrix() : l.y)),
        z(host.of(needs_input(l.act) ? l.z : Matrix())),
        dy(host.of(l.dy)),
        x(host.of(l.x)),
        w(host.of(l.w)),
        added(host.of(l.added)),
        dx(Copy::empty_like(l.dx, l.dx.type)),
        dw(l.dw.rows, l.dw.cols, DType::kFloat32),
        dbias(1, static_cast<int64_t>(l.dbias.size()), DType::kFloat32) {}

  LinearBackward layer() const {
    LinearBackward l;
    l.act = act;
    l.y = y.matrix(), l.z = z.matrix(), l.dy = dy.matrix(), l.x = x.matrix(), l.w = w.matrix();
    if (dx.matrix().cols > 0) l.dx = dx.matrix();
    if (added.matrix().cols > 0) l.added = added.matrix();
    l.dw = dw.floats();
    l.dbias = {dbias.floats().data, static_cast<size_t>(dbias.matrix().cols)};
    return l;
  }
};

/// The results of a second backward, in other device memory.
class Aside {
 public:
  Aside(Device& device, Ops& ops, const LinearBackward& l)
      : layer_(l),
        dy_(like(device, l.dy)),
        dx_(like(device, l.dx)),
        dw_(device, static_cast<size_t>(l.dw.rows * l.dw.cols), "checked gradients"),
        dbias_(device, l.dbias.size(), "checked gradients") {
    layer_.dy = Matrix(dy_.data(), l.dy.type, l.dy.rows, l.dy.cols);
    if (l.dx.data) layer_.dx = Matrix(dx_.data(), l.dx.type, l.dx.rows, l.dx.cols);
    if (l.added.data && l.added.data == l.dx.data) {
      ops.convert(l.added, layer_.dx);
      layer_.added = layer_.dx;
    }
    layer_.dw = {dw_.data(), l.dw.rows, l.dw.cols};
    layer_.dbias = dbias_.view();
    ops.convert(l.dy, layer_.dy);
  }
  const LinearBackward& layer() const { return layer_; }
  View<float> weight_gradient() const { return dw_.view(); }

 private:
  static Buffer like(Device& device, const Matrix& m) {
    return {device, static_cast<size_t>(m.rows * m.cols) * size_of(m.type), "checked gradients"};
  }
  LinearBackward layer_;
  Buffer dy_, dx_;
  Array<float> dw_, dbias_;
};

/// The magnitude that the error of dz is relative to: that of dz. If slopes are computed to a few
/// units in the last place of 1, dy is added.
Copy gradient_size(Activation act, Copy dz, const Copy& dy) {
  if (act == Activation::kNone || act == Activation::kRelu) return dz;
  for (int64_t r = 0; r < dz.matrix().rows; ++r) {
    for (int64_t c = 0; c < dz.matrix().cols; ++c) {
      reference::set(dz.matrix(), r, c, dz.at(r, c) + 2 * dy.at(r, c));
    }
  }
  return dz;
}

}  // namespace

void CheckedOps::check(const LinearBackward& layer) {
  run_backward(subject("linear_backward", shape_of(layer)), layer);
}

void CheckedOps::run_backward(const Subject& s, const LinearBackward& layer) {
  HostLayer want(host_, layer);
  const Copy before = want.dy;
  chosen_->run(layer);
  reference_.run(want.layer());
  HostLayer sizes(host_, layer);
  sizes.act = Activation::kNone;
  sizes.dy =
      gradient_size(layer.act, Copy::magnitude(want.dy.matrix()), Copy::magnitude(before.matrix()));
  sizes.x = Copy::magnitude(want.x.matrix());
  sizes.w = Copy::magnitude(want.w.matrix());
  sizes.added = Copy::magnitude(want.added.matrix());
  if (layer.dx.data) {
    sizes.dx = Copy(layer.dx.rows, layer.dx.cols, DType::kFloat32);
  }
  reference_.run(sizes.layer());
  if (layer.dx.data) {
    expect_close(s, "dx", host_.of(layer.dx).matrix(), want.dx.matrix(),
                 sums(layer.dy.cols, sizes.dx));
  }
  expect_close(s, "dw", host_.of(layer.dw).matrix(), want.dw.matrix(),
               sums(layer.dy.rows, sizes.dw));
  expect_close(s, "dbias", host_.of(as_row(layer.dbias)).matrix(), want.dbias.matrix(),
               sums(layer.dy.rows, sizes.dbias));
}

void CheckedOps::check(const LinearBackwardUpdate& o) {
  const auto& [step, layer, weight, bias] = o;
  // The gradients that were applied: those of the same operation without the update. They are
  // compared too.
  const Aside kept(device_, *chosen_, layer);
  const Subject s = subject("linear_backward_update", shape_of(layer));
  run_backward(s, kept.layer());
  const HostStep now(host_, step);
  TensorUpdate weights(host_, *now, weight), biases(host_, *now, bias);
  chosen_->run(o);
  if (layer.dx.data) {
    expect_close(s, "dx", host_.of(layer.dx).matrix(), host_.of(kept.layer().dx).matrix(),
                 [](int64_t, int64_t) { return 0.0; });
  }
  weights.compare(s, reference_, host_.of(kept.weight_gradient()));
  biases.compare(s, reference_, host_.of(kept.layer().dbias));
}

}  // namespace dlrm::checked
