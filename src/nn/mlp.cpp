#include "dlrm/nn/mlp.h"

#include <algorithm>
#include <cmath>

#include "dlrm/core/random.h"
#include "dlrm/nn/matrix_stride.h"

namespace dlrm {
namespace {

constexpr int64_t kMaskStep = 128;  // bits; the rows of a mask are a multiple of it

}  // namespace

Mlp::Mlp(Context& context, Ops& ops, Parameters& parameters, const std::string& path,
         int64_t inputs, const std::vector<int64_t>& sizes, Activation act, Activation last_act,
         DType compute, int64_t max_batch, const HiddenLayers& hidden, Matrix place)
    : ops_(ops),
      parameters_(parameters),
      inputs_(inputs),
      compute_(compute),
      fused_(ops.fuses_layers()),
      dropout_(hidden.dropout) {
  const bool keeps_gradients = ops.gradient_stream() != nullptr;
  int64_t in = inputs, widest[] = {0, 0};  // of the hidden layers that share a gradient
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
    layer.stride = matrix_stride(context.device, out);
    const size_t bytes = static_cast<size_t>(max_batch * layer.stride) * size_of(compute);
    const bool is_hidden = i + 1 < sizes.size();
    if (is_hidden || !place.data) {
      layer.output = Buffer(context.device, bytes, "activations");
      layer.place = Matrix(layer.output.data(), compute, max_batch, out, layer.stride);
    } else {
      layer.place = place;
    }
    if (needs_input(layer.act)) layer.input = Buffer(context.device, bytes, "activations");
    const bool drops = dropout_ > 0 && is_hidden, norms = hidden.layer_norm && is_hidden;
    if (norms) {
      layer.norm = parameters.add(layer.path + "/norm/weight", out, 0, 0, /*constant=*/1);
      parameters.add(layer.path + "/norm/bias", out, 0, 0);
      layer.sums = Buffer(context.device, bytes, "activations");
      const auto samples = static_cast<size_t>(max_batch);
      layer.norm_means = Array<float>(context.device, samples, "statistics of layer norms");
      layer.norm_inverse_spreads =
          Array<float>(context.device, samples, "statistics of layer norms");
    }
    if (drops) {
      layer.kept = Buffer(context.device, bytes, "activations");
      layer.dropout_key = stream_key(hidden.seed, layer.path + "/dropout");
    }
    // A next layer with one output does not use a mask: its backward pass finds from its input
    // which elements are above 0.
    if (fused_ && !drops && !norms && layer.act == Activation::kRelu && is_hidden &&
        sizes[i + 1] > 1) {
      layer.mask.stride = (out + kMaskStep - 1) / kMaskStep * kMaskStep;
      layer.bits = Buffer(context.device, static_cast<size_t>(max_batch * layer.mask.stride / 8),
                          "activation masks");
      layer.mask.bits = layer.bits.data();
    }
    if (keeps_gradients && is_hidden) {
      layer.gradient = Buffer(context.device, bytes, "activation gradients");
    }
    if (is_hidden) widest[i % 2] = std::max(widest[i % 2], layer.stride);
    layers_.push_back(std::move(layer));
    in = out;
  }
  if (keeps_gradients) return;
  for (size_t k = 0; k < 2; ++k) {
    shared_gradients_[k] =
        Buffer(context.device, static_cast<size_t>(max_batch * widest[k]) * size_of(compute),
               "activation gradients");
  }
}

Matrix Mlp::forward(Matrix x, const Progress& progress, const DropoutPlace* training) {
  if (training) place_ = *training;
  for (Layer& layer : layers_) {
    layer.x = x;
    layer.y = layer.place.row_range(0, x.rows);
    if (needs_input(layer.act)) {
      layer.z = Matrix(layer.input.data(), compute_, x.rows, layer.outputs, layer.stride);
    }
    forward(layer);
    x = layer.y;
    if (training && layer.kept.data()) {
      x.data = layer.kept.data();
      drop(layer, layer.y, x);
    }
    progress();
  }
  return x;
}

void Mlp::drop(const Layer& layer, Matrix from, Matrix to) {
  ops_.dropout(layer.dropout_key, dropout_, place_, from, to);
}

void Mlp::forward(Layer& layer) {
  LinearForward all;
  all.x = layer.x;
  if (layer.norm < 0) {
    all.y = layer.y, all.z = layer.z;
    all.act = layer.act;
  } else {
    all.y = sums_of(layer);
  }
  all.w = parameters_.weight(layer.weight);
  all.bias = parameters_.bias(layer.bias);
  all.rounded_bias = parameters_.rounded_bias(layer.bias);
  if (layer.mask.bits) all.mask = &layer.mask;
  ops_.run(all);
  if (layer.norm >= 0) normalise(layer);
}

Matrix Mlp::sums_of(const Layer& layer) const {
  Matrix sums = layer.y;
  sums.data = layer.sums.data();
  return sums;
}

void Mlp::normalise(const Layer& layer) {
  LayerNormForward o{};
  o.x = sums_of(layer), o.y = layer.y, o.z = layer.z;
  o.act = layer.act;
  o.scale = parameters_.bias(layer.norm), o.shift = parameters_.bias(layer.norm + 1);
  o.means = of_samples(layer.norm_means, layer);
  o.inverse_spreads = of_samples(layer.norm_inverse_spreads, layer);
  ops_.run(o);
}

void Mlp::normalise_backward(const Layer& layer, Matrix dy) {
  ops_.activation_backward(layer.act, layer.y, layer.z, dy);
  LayerNormBackward o{};
  o.x = sums_of(layer), o.dz = dy;
  o.scale = parameters_.bias(layer.norm);
  o.means = of_samples(layer.norm_means, layer);
  o.inverse_spreads = of_samples(layer.norm_inverse_spreads, layer);
  o.dscale = parameters_.bias_gradient(layer.norm);
  o.dshift = parameters_.bias_gradient(layer.norm + 1);
  ops_.run(o);
  parameters_.gradients_ready_from(layer.norm);
}

LayerBelow Mlp::below(const Layer& layer) const {
  LayerBelow below;
  below.act = layer.act;
  below.y = layer.y, below.z = layer.z;
  if (layer.mask.bits) below.mask = &layer.mask;
  below.dbias = parameters_.bias_gradient(layer.bias);
  return below;
}

void Mlp::backward(Matrix dy, Matrix dx, const Progress& progress, Matrix added) {
  if (layers_.empty() && dx.data) ops_.convert(dy, dx);
  // The layer above has computed this layer's dz, and its dbias.
  bool is_dz = false, has_dbias = false;
  for (size_t i = layers_.size(); i-- > 0;) {
    Layer& layer = layers_[i];
    if (layer.norm >= 0) {
      normalise_backward(layer, dy);
      is_dz = true;
    }
    LinearBackward gradients;
    gradients.act = is_dz ? Activation::kNone : layer.act;
    gradients.y = layer.y;
    gradients.z = layer.z;
    gradients.dy = dy;
    gradients.x = layer.x;
    gradients.dx =
        i > 0 ? Matrix(gradient_of(i - 1).data(), compute_, dy.rows, layer.x.cols, layer.x.stride)
              : dx;
    if (i == 0) gradients.added = added;
    LayerBelow next;
    const bool drops = i > 0 && layers_[i - 1].kept.data();
    if (fused_ && i > 0 && !drops && layers_[i - 1].norm < 0) {
      next = below(layers_[i - 1]);
      gradients.below = &next;
    }
    parameters_.linear_backward(gradients, layer.weight, layer.bias, !has_dbias);
    if (drops) drop(layers_[i - 1], gradients.dx, gradients.dx);
    is_dz = gradients.below != nullptr;
    has_dbias = next.has_dbias;
    dy = gradients.dx;
    progress();
  }
}

const Buffer& Mlp::gradient_of(size_t i) const {
  return layers_[i].gradient.data() ? layers_[i].gradient : shared_gradients_[i % 2];
}

std::vector<std::pair<std::string, Matrix>> Mlp::activations() const {
  std::vector<std::pair<std::string, Matrix>> all;
  for (const Layer& layer : layers_) all.emplace_back(layer.path, layer.y);
  return all;
}

}  // namespace dlrm
