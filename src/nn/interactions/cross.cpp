#include <cmath>

#include "dlrm/nn/interaction.h"
#include "dlrm/nn/matrix_stride.h"

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
        max_batch_(setup.max_batch),
        dense_(setup.inputs.dense),
        embeddings_(setup.inputs.embeddings),
        rank_(config.rank_of(setup.inputs)),
        deferred_(setup.ops.gradient_stream() != nullptr) {
    const int64_t n = config.width(setup.inputs);
    const auto deviation = [n](int64_t inputs) {
      return std::sqrt(2.0 / static_cast<double>(n + inputs));
    };
    const auto buffer = [&](int64_t columns, int64_t blocks = 1) {
      const int64_t elements = blocks * setup.max_batch * matrix_stride(device_, columns);
      return Buffer(device_, static_cast<size_t>(elements) * size_of(compute_), "cross layers");
    };
    for (int64_t i = 0; i < config.layers; ++i) {
      Layer layer;
      layer.path = fmt::format("/cross/{}", i);
      if (low_rank()) {
        layer.v = parameters_.add(layer.path + "/v", rank_, n, deviation(rank_));
        layer.u = parameters_.add(layer.path + "/u", n, rank_, deviation(rank_));
        layer.low = buffer(rank_);
      } else {
        layer.v = layer.u = parameters_.add(layer.path + "/w", n, n, deviation(n));
      }
      layer.bias = parameters_.add(layer.path + "/bias", n, 0, 0);
      layer.output = buffer(n);
      layers_.push_back(std::move(layer));
    }
    gates_ = buffer(n, config.layers);
    input_gradients_ = buffer(n, config.layers);
    const int64_t kept = deferred_ ? config.layers : 1;
    gate_gradients_ = buffer(n, kept);
    if (low_rank()) low_gradients_ = buffer(rank_, kept);
  }

  Matrix place_of_embeddings() const override { return concat_->place_of_embeddings(); }

  Matrix place_of_gradients(const Matrix&) override {
    const Matrix all(input_gradients_.data(), compute_, max_batch_, width(),
                     matrix_stride(device_, width()));
    return all.columns(dense_, embeddings_);
  }

  Matrix forward(Matrix x, Matrix e, const Progress& progress) override {
    x0_ = concat_->forward(x, e, progress);
    last_ = x0_;
    for (size_t i = 0; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      const Matrix gate = block(gates_, width(), i), y = at(layer.output, width());
      Matrix x = last_;
      if (low_rank()) {
        x = at(layer.low, rank_);
        ops_.linear_forward(last_, parameters_.weight(layer.v), {}, Activation::kNone, x, {});
      }
      LinearForward product;
      product.x = x, product.y = gate;
      product.w = parameters_.weight(layer.u);
      product.bias = parameters_.bias(layer.bias);
      product.rounded_bias = parameters_.rounded_bias(layer.bias);
      if (i > 0) product.added = block(gates_, width(), i - 1);
      ops_.run(product);
      ops_.cross_forward(x0_, gate, y);
      last_ = y;
      progress();
    }
    return last_;
  }

  void backward(Matrix dz, Matrix dx, Matrix de, const Progress& progress) override {
    Matrix dy = dz;
    for (size_t i = layers_.size(); i-- > 0;) {
      const Matrix input = i > 0 ? at(layers_[i - 1].output, width()) : x0_;
      const Matrix dinput = block(input_gradients_, width(), i);
      const size_t at_block = deferred_ ? i : 0;
      const Matrix dgate = block(gate_gradients_, width(), at_block);
      Matrix added = dy;
      if (i > 0) {
        ops_.cross_backward(x0_, dy, dgate);
      } else {
        // The gradient of x0 is complete when the product has added to the sum.
        added = dinput;
        ops_.cross_input_backward(x0_, blocks(gates_), above_first(), dz, dgate, added);
      }
      products_backward(layers_[i], input, added, dgate, at_block, dinput);
      dy = dinput;
      parameters_.gradients_ready_from(layers_[i].v);
      progress();
    }
    if (dx.data) ops_.convert(dy.columns(0, dense_), dx);
    const Matrix embeddings = dy.columns(dense_, embeddings_);
    if (de.data != embeddings.data) ops_.convert(embeddings, de);
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
    int v = 0, u = 0, bias = 0;  // v and u are W if it is whole
    Buffer low, output;          // Vx [b, rank], the layer's output [b, n]
  };

  bool low_rank() const { return rank_ != CrossConfig::kFull; }

  /// Computes the gradients of W, or of U and V, and of the bias from that of Wx+b, and the
  /// gradient of the layer's input: that through the products, plus `added`. `at_block`: the block
  /// of the gradient of Vx.
  void products_backward(const Layer& layer, Matrix input, Matrix added, Matrix dgate,
                         size_t at_block, Matrix dinput) {
    LinearBackward second;
    second.dy = dgate;
    second.w = parameters_.weight(layer.u);
    second.dw = parameters_.weight_gradient(layer.u);
    second.dbias = parameters_.bias_gradient(layer.bias);
    if (!low_rank()) {
      second.x = input, second.dx = dinput, second.added = added;
      return parameters_.linear_backward_of(second, layer.u);
    }
    const Matrix dlow = block(low_gradients_, rank_, at_block);
    second.x = at(layer.low, rank_), second.dx = dlow;
    parameters_.linear_backward_of(second, layer.u);
    parameters_.gradients_ready_from(layer.u);
    LinearBackward first;
    first.dy = dlow, first.x = input, first.dx = dinput;
    first.w = parameters_.weight(layer.v);
    first.dw = parameters_.weight_gradient(layer.v);
    first.added = added;
    parameters_.linear_backward_of(first, layer.v);
  }

  Matrix at(const Buffer& buffer, int64_t columns) const {
    return {buffer.data(), compute_, x0_.rows, columns, matrix_stride(device_, columns)};
  }
  /// Blocks [b, width()], one for each layer.
  Matrix blocks(const Buffer& buffer) const {
    Matrix all = at(buffer, width());
    all.rows *= static_cast<int64_t>(layers_.size());
    return all;
  }
  /// The gradients of the inputs of all layers but the first.
  Matrix above_first() const {
    const Matrix all = blocks(input_gradients_);
    return all.row_range(x0_.rows, all.rows - x0_.rows);
  }
  Matrix block(const Buffer& buffer, int64_t columns, size_t i) const {
    const Matrix first = at(buffer, columns);
    return first.row_range(static_cast<int64_t>(i) * first.rows, first.rows);
  }

  Ops& ops_;
  Parameters& parameters_;
  std::unique_ptr<Interaction> concat_;
  Device& device_;
  DType compute_;
  int64_t max_batch_, dense_, embeddings_;
  int64_t rank_;
  bool deferred_;  // gradients of weights are, so their operands are kept
  std::vector<Layer> layers_;
  Buffer gates_;            // of each layer: Wx+b, and those of the layers before it [b, n]
  Buffer input_gradients_;  // of each layer: the gradient of its input [b, n]; x0's first
  Buffer gate_gradients_, low_gradients_;  // of each layer if deferred, otherwise of one
  Matrix x0_, last_;
};

}  // namespace

std::unique_ptr<Interaction> make_interaction(const CrossConfig& config,
                                              const InteractionSetup& setup) {
  return std::make_unique<Cross>(config, setup);
}

}  // namespace dlrm
