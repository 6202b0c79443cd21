#include <algorithm>
#include <variant>

#include "dlrm/wire/gradient_buckets.h"

#include "dense_layers.h"
#include "numbers.h"
#include "step_work.h"

namespace dlrm {
namespace {

/// Dropout and layer norms are more passes over the outputs of a layer.
void add_products(const std::vector<DenseLayer>& layers, std::vector<ProductWork>& products) {
  for (const DenseLayer& layer : layers) {
    ProductWork product = {real(layer.inputs), real(layer.outputs),
                           real((layer.inputs + 1) * layer.outputs)};
    if (layer.activated) {
      product.forward_passes = 2 * product.outputs;         // y = relu(y)
      product.backward_passes = (3 + 1) * product.outputs;  // dy where y > 0, and its sums
    }
    if (layer.dropout) {
      product.forward_passes += 2 * product.outputs;
      product.backward_passes += 2 * product.outputs;
    }
    if (layer.norm) {
      product.parameters += 2 * product.outputs;
      product.forward_passes += 2 * product.outputs;
      product.backward_passes += 5 * product.outputs;
    }
    products.push_back(product);
  }
}

/// X and E, per sample.
double input_bytes(const InteractionInputs& in, double element) {
  return element * real(in.dense + in.embeddings);
}

/// Each input and output is read or written once, in both directions.
void add_passes(const InteractionInputs& in, int64_t width, DenseWork& work) {
  const double bytes = input_bytes(in, work.element_bytes) + work.element_bytes * real(width);
  work.interact_forward.bytes = work.interact_backward.bytes = bytes;
}

/// X is copied to Z, and its gradient back. E is in Z.
void add_copies_of_x(const InteractionInputs& in, DenseWork& work) {
  work.interact_forward.bytes = work.interact_backward.bytes =
      2 * work.element_bytes * real(in.dense);
}

void add_interaction(const ConcatConfig& config, const InteractionInputs& in, DenseWork& work) {
  config.embeddings_in_place() ? add_copies_of_x(in, work) : add_passes(in, config.width(in), work);
}

void add_interaction(const FmConfig& config, const InteractionInputs& in, DenseWork& work) {
  add_passes(in, config.width(in), work);
  work.interact_forward.flops = 3 * real(in.dense + in.embeddings);
  work.interact_backward.flops = 2 * real(in.dense + in.embeddings);
  work.interact_backward.bytes += input_bytes(in, work.element_bytes);
}

void add_interaction(const DotConfig& config, const InteractionInputs& in, DenseWork& work) {
  add_passes(in, config.width(in), work);
  const double vectors = real(in.features + (in.dense > 0 ? 1 : 0));
  work.interact_forward.flops = 2 * vectors * real(in.dense + in.embeddings);
  work.interact_backward.flops = 2 * work.interact_forward.flops;
  work.interact_backward.bytes += input_bytes(in, work.element_bytes);
}

void add_interaction(const CrossConfig& config, const InteractionInputs& in, DenseWork& work) {
  add_copies_of_x(in, work);
  // Passes between the products (docs/benchmarks/gpu.md).
  const double layers = real(config.layers), element = work.element_bytes * real(config.width(in));
  work.interact_forward.bytes += 3 * layers * element;
  work.interact_backward.bytes += 5 * layers * element;
}

/// The weights of features are read with E, which then lies in no other input and is copied.
void add_linear_part(const ModelConfig& model, DenseWork& work) {
  const InteractionInputs in = model.interaction_inputs();
  const bool in_place = std::visit(
      [](const auto& interaction) { return interaction.embeddings_in_place(); }, model.interaction);
  const double columns = real(model.linear_features()) + (in_place ? 2 * real(in.embeddings) : 0);
  work.interact_forward.bytes += work.element_bytes * columns;
  work.interact_backward.bytes += work.element_bytes * columns;
  // Several labels share a logit, which is set to zero, and added to each.
  work.linear_launches = work.labels == 1 ? 1 : work.labels + 2;
  if (model.dense_features == 0) return;
  ProductWork product = {real(model.dense_features), 1, real(model.dense_features)};
  product.input_gradient = false;
  work.top.push_back(product);
}

/// Mixing reads the experts' outputs and writes an input for each tower. Backward reads and writes
/// both.
void add_gates(const ModelConfig& model, DenseWork& work) {
  const ExpertsConfig& experts = model.experts;
  if (experts.count == 0) return;
  const int64_t width = model.interaction_width(), gates = gate_outputs(model);
  ProductWork gate = {real(width), real(gates), real(width * gates)};
  gate.forward_passes = real((experts.count + model.num_labels()) * experts.layers.back());
  gate.backward_passes = 2 * gate.forward_passes;
  work.top.push_back(gate);
}

void add_buckets(const WireConfig& wire, bool on_gpu, DenseWork& work) {
  std::vector<int64_t> starts;
  int64_t size = 0;
  for (const auto* products : {&work.bottom, &work.interaction, &work.top}) {
    for (const ProductWork& product : *products) {
      starts.push_back(size);
      size += static_cast<int64_t>(product.parameters);
    }
  }
  for (const Range& bucket : gradient_buckets(starts, size, on_gpu)) {
    const auto first = std::lower_bound(starts.begin(), starts.end(), bucket.begin);
    work.bucket_products.push_back(static_cast<size_t>(first - starts.begin()));
    work.bucket_bytes.push_back(real(bucket.size()) * real(size_of(wire.dense)));
  }
}

}  // namespace

DenseWork dense_work(const RunConfig& config, bool on_gpu) {
  const ModelConfig& model = config.model;
  DenseWork work;
  work.labels = real(model.num_labels());
  work.element_bytes = config.train.precision == Precision::kBf16 ? 2 : 4;
  const DenseLayers layers = dense_layers(model);
  add_products(layers.bottom, work.bottom);
  if (!work.bottom.empty()) work.bottom.front().input_gradient = false;
  add_products(layers.experts, work.top);
  add_gates(model, work);
  add_products(layers.towers, work.top);
  for (const InteractionProduct& product : model.interaction_cost().products) {
    work.interaction.push_back(
        {real(product.inputs), real(product.outputs), real(product.parameters())});
  }
  const InteractionInputs inputs = model.interaction_inputs();
  std::visit([&](const auto& config_of_it) { add_interaction(config_of_it, inputs, work); },
             model.interaction);
  if (model.linear) add_linear_part(model, work);
  add_buckets(config.train.wire, on_gpu, work);
  work.parameters = real(model.dense_parameters());
  const int states = traits_of(config.train.dense_optimizer.type).state_count();
  work.update_bytes = 4 * work.parameters * (3 + 2 * states);
  return work;
}

}  // namespace dlrm
