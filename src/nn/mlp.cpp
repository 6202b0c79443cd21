#include "dlrm/nn/mlp.h"

#include <algorithm>
#include <cmath>

namespace dlrm {

Mlp::Mlp(Context& context, Ops& ops, Parameters& parameters, const std::string& path,
         int64_t inputs, const std::vector<int64_t>& sizes, Act act, Act last_act, DType compute,
         int64_t max_batch)
    : ops_(ops), parameters_(parameters), inputs_(inputs), compute_(compute) {
  int64_t in = inputs, widest = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t out = sizes[i];
    Layer layer;
    layer.path = fmt::format("{}/{}", path, i);
    layer.weight = parameters.add(layer.path + "/weight", out, in,
                                  std::sqrt(2.0 / static_cast<double>(in + out)));
    layer.bias =
        parameters.add(layer.path + "/bias", out, 0, std::sqrt(1.0 / static_cast<double>(out)));
    layer.outputs = out;
    layer.act = i + 1 == sizes.size() ? last_act : act;
    const size_t bytes = static_cast<size_t>(max_batch * out) * size_of(compute);
    layer.output = Buffer(context.device, bytes, "activations");
    if (needs_input(layer.act)) layer.input = Buffer(context.device, bytes, "activations");
    layers_.push_back(std::move(layer));
    if (i > 0) widest = std::max(widest, in);
    in = out;
  }
  for (Buffer& b : gradient_) {
    b = Buffer(context.device, static_cast<size_t>(max_batch * widest) * size_of(compute),
               "activation gradients");
  }
}

Matrix Mlp::forward(Matrix x, const Progress& progress) {
  for (Layer& layer : layers_) {
    layer.x = x;
    layer.y = Matrix(layer.output.data(), compute_, x.rows, layer.outputs);
    if (needs_input(layer.act)) {
      layer.z = Matrix(layer.input.data(), compute_, x.rows, layer.outputs);
    }
    ops_.linear_forward(x, parameters_.weight(layer.weight), parameters_.bias(layer.bias),
                        layer.act, layer.y, layer.z);
    x = layer.y;
    progress();
  }
  return x;
}

void Mlp::backward(Matrix dy, Matrix dx, const Progress& progress) {
  if (layers_.empty() && dx.data) ops_.convert(dy, dx);
  for (size_t i = layers_.size(); i-- > 0;) {
    Layer& layer = layers_[i];
    const Matrix below =
        i > 0 ? Matrix(gradient_[i % 2].data(), compute_, dy.rows, layer.x.cols) : dx;
    LinearGradients gradients;
    gradients.act = layer.act;
    gradients.y = layer.y;
    gradients.z = layer.z;
    gradients.dy = dy;
    gradients.x = layer.x;
    gradients.dx = below;
    parameters_.linear_backward(gradients, layer.weight, layer.bias);
    dy = below;
    progress();
  }
}

std::vector<std::pair<std::string, Matrix>> Mlp::activations() const {
  std::vector<std::pair<std::string, Matrix>> all;
  for (const Layer& layer : layers_) all.emplace_back(layer.path, layer.y);
  return all;
}

}  // namespace dlrm
