#include <cmath>

#include "dlrm/nn/interaction.h"
#include "dlrm/nn/row_stride.h"

namespace dlrm {
namespace {

class Cross final : public Interaction {
 public:
  Cross(const CrossConfig& config, const InteractionSetup& setup)
      : ops_(setup.ops),
        parameters_(setup.parameters),
        concat_(make_interaction(ConcatConfig(), setup)),
        device_(setup.context.device),
        compute_(setup.compute),
        rank_(config.rank) {
    const int64_t n = config.width(setup.inputs);
    const double deviation = std::sqrt(2.0 / static_cast<double>(n + rank_));
    const auto buffer = [&](int64_t columns) {
      const auto elements = static_cast<size_t>(setup.max_batch * row_stride(device_, columns));
      return Buffer(device_, elements * size_of(compute_), "cross layers");
    };
    for (int64_t i = 0; i < config.layers; ++i) {
      Layer layer;
      layer.path = fmt::format("/cross/{}", i);
      layer.v = parameters_.add(layer.path + "/v", rank_, n, deviation);
      layer.u = parameters_.add(layer.path + "/u", n, rank_, deviation);
      layer.bias = parameters_.add(layer.path + "/bias", n, 0, 0);
      layer.low = buffer(rank_);
      layer.gate = buffer(n);
      layer.output = buffer(n);
      layers_.push_back(std::move(layer));
    }
    dgate_ = buffer(n);
    dlow_ = buffer(rank_);
    dx0_ = buffer(n);
    if (!ops_.fuses_layers()) dsum_ = buffer(n);
  }

  Matrix forward(Matrix x, MatrixView<const float> e, const Progress& progress) override {
    x0_ = concat_->forward(x, e, progress);
    last_ = x0_;
    for (const Layer& layer : layers_) {
      const Matrix low = at(layer.low, rank_), gate = at(layer.gate, width());
      const Matrix y = at(layer.output, width());
      ops_.linear_forward(last_, parameters_.weight(layer.v), {}, Activation::kNone, low, {});
      LinearForward second;
      second.x = low, second.y = gate;
      second.w = parameters_.weight(layer.u);
      second.bias = parameters_.bias(layer.bias);
      second.rounded_bias = parameters_.rounded_bias(layer.bias);
      ops_.run(second);
      ops_.cross_forward(x0_, gate, last_, y);
      last_ = y;
      progress();
    }
    return last_;
  }

  void backward(Matrix dz, Matrix dx, MatrixView<float> de, const Progress& progress) override {
    const Matrix dx0 = at(dx0_, width()), dgate = at(dgate_, width());
    for (size_t i = layers_.size(); i-- > 0;) {
      const Layer& layer = layers_[i];
      const Matrix input = i > 0 ? at(layers_[i - 1].output, width()) : x0_;
      const Matrix gate = at(layer.gate, width());
      if (i + 1 == layers_.size()) {
        ops_.first_cross_backward(x0_, gate, dz, dgate, dx0);
      } else {
        ops_.cross_backward(x0_, gate, dz, dgate, dx0);
      }
      products_backward(layer, input, dz);
      parameters_.gradients_ready_from(layer.v);
      progress();
    }
    if (!layers_.empty()) ops_.add(dx0, dz);
    concat_->backward(dz, dx, de, progress);
  }

  int64_t width() const override { return concat_->width(); }
  std::vector<std::pair<std::string, Matrix>> activations() const override {
    auto all = concat_->activations();
    for (const Layer& layer : layers_) all.emplace_back(layer.path, at(layer.output, width()));
    return all;
  }

 private:
  struct Layer {
    std::string path;
    int v = 0, u = 0, bias = 0;
    Buffer low, gate, output;  // Vx [b, rank], U(Vx)+b [b, n], the layer's output [b, n]
  };

  /// Computes the gradients of U, V and the bias from that of U(Vx)+b, and adds the gradient of x
  /// to dz.
  void products_backward(const Layer& layer, Matrix input, Matrix dz) {
    const Matrix dgate = at(dgate_, width()), dlow = at(dlow_, rank_), low = at(layer.low, rank_);
    if (!ops_.fuses_layers()) {
      const Matrix through = at(dsum_, width());
      ops_.linear_backward_weight(dgate, low, parameters_.weight_gradient(layer.u),
                                  parameters_.bias_gradient(layer.bias));
      ops_.linear_backward_input(dgate, parameters_.weight(layer.u), dlow);
      ops_.linear_backward_weight(dlow, input, parameters_.weight_gradient(layer.v), {});
      ops_.linear_backward_input(dlow, parameters_.weight(layer.v), through);
      ops_.add(through, dz);
      return;
    }
    LinearBackward second;
    second.dy = dgate, second.x = low, second.dx = dlow;
    second.w = parameters_.weight(layer.u);
    second.dw = parameters_.weight_gradient(layer.u);
    second.dbias = parameters_.bias_gradient(layer.bias);
    ops_.run(second);
    LinearBackward first;
    first.dy = dlow, first.x = input, first.dx = dz;
    first.w = parameters_.weight(layer.v);
    first.dw = parameters_.weight_gradient(layer.v);
    first.accumulate_dx = true;
    ops_.run(first);
  }

  Matrix at(const Buffer& buffer, int64_t columns) const {
    return {buffer.data(), compute_, x0_.rows, columns, row_stride(device_, columns)};
  }

  Ops& ops_;
  Parameters& parameters_;
  std::unique_ptr<Interaction> concat_;
  Device& device_;
  DType compute_;
  int64_t rank_;
  std::vector<Layer> layers_;
  Buffer dgate_, dlow_, dx0_, dsum_;
  Matrix x0_, last_;
};

}  // namespace

std::unique_ptr<Interaction> make_interaction(const CrossConfig& config,
                                              const InteractionSetup& setup) {
  return std::make_unique<Cross>(config, setup);
}

}  // namespace dlrm
