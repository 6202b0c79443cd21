#include <algorithm>
#include <variant>

#include "dlrm/plan/traffic.h"

#include "dense_layers.h"
#include "memory.h"
#include "numbers.h"

namespace dlrm {
namespace {

constexpr double kPadding = 16;  // elements

/// Of GPUs, for any model: workspaces of products (32 MiB for each stream that runs them), code
/// that is loaded when it is first called, descriptor lists, scratch whose size depends on no batch
/// or table, and rounding by the pool.
constexpr double kLibraryBytes = 512.0 * 1024 * 1024;

std::vector<DenseLayer> mlp_layers(int64_t inputs, const std::vector<int64_t>& sizes, bool dropout,
                                   bool norm, bool ends_in_logits) {
  std::vector<DenseLayer> layers;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool hidden = i + 1 < sizes.size();
    layers.push_back(
        {inputs, sizes[i], hidden || !ends_in_logits, hidden && dropout, hidden && norm});
    inputs = sizes[i];
  }
  return layers;
}

void append(const std::vector<DenseLayer>& more, std::vector<DenseLayer>& layers) {
  layers.insert(layers.end(), more.begin(), more.end());
}

/// Outputs of mixtures and gates, per sample.
double mixture_outputs(const ModelConfig& model) {
  if (model.experts.count == 0) return 0;
  return real(model.num_labels() * model.experts.layers.back() + gate_outputs(model));
}

/// About the number of an interaction's trained tensors, and of its kept matrices.
double matrices_of(const InteractionCost& interaction) {
  double matrices = real(interaction.matrices);
  for (const InteractionProduct& product : interaction.products) matrices += product.bias ? 2 : 1;
  return matrices;
}

/// Padding of weight rows to 16 elements, in all arrays that dense_bytes counts for a parameter.
double gpu_weight_padding(const ModelConfig& model, double bytes_a_parameter) {
  const InteractionCost interaction = model.interaction_cost();
  double rows = real(gate_outputs(model));
  double tensors =
      matrices_of(interaction) + (model.linear ? 2 : 0) + (model.experts.count > 0 ? 2 : 0) + 1;
  for (const InteractionProduct& product : interaction.products) rows += real(product.outputs);
  for (const DenseLayer& layer : dense_layers(model).all()) {
    rows += real(layer.outputs);
    tensors += layer.norm ? 4 : 2;
  }
  return kPadding * (rows + tensors) * bytes_a_parameter;
}

/// Padding of the rows of layers' outputs and gradients, and the masks of relu: one bit per output.
double gpu_activation_extra(const ModelConfig& model, double element) {
  double buffers = matrices_of(model.interaction_cost()) + 8 +
                   (model.experts.count > 0 ? 2.0 * real(model.num_labels()) + 4 : 0);
  double masks = 0;
  for (const DenseLayer& layer : dense_layers(model).all()) {
    buffers += 2 + (layer.dropout ? 1 : 0) + (layer.norm ? 1 : 0);
    masks += real(layer.outputs) / 8 + 16;
  }
  return kPadding * buffers * element + masks;
}

/// The fp32 copies of x [b, in], w [out, in] and y [b, out] of the products of dense layers.
double widened_bytes(const ModelConfig& model, int64_t local_batch) {
  std::vector<DenseLayer> products = dense_layers(model).all();
  products.push_back({model.interaction_width(), gate_outputs(model)});
  for (const auto& [inputs, outputs, bias] : model.interaction_cost().products) {
    products.push_back({inputs, outputs});
  }
  int64_t widest = 0, largest = 0;
  for (const DenseLayer& product : products) {
    if (product.outputs == 0) continue;
    widest = std::max({widest, product.inputs, product.outputs});
    largest = std::max(largest, product.inputs * product.outputs);
  }
  const int64_t vectors = local_batch * widest;
  return 4.0 * real(2 * vectors + std::max(vectors, largest));
}

/// Weights, gradients (4 bytes each), state, and bf16 copies (2) of the dense parameters.
double dense_bytes(const RunConfig& config) {
  const double state = 4.0 * traits_of(config.train.dense_optimizer.type).state_count();
  const double copies = config.train.precision == Precision::kBf16 ? 2 : 0;
  const double a_parameter = 4.0 + 4.0 + state + copies;
  const double bytes = real(config.model.dense_parameters()) * a_parameter;
  return plans_for_gpu(config) ? bytes + gpu_weight_padding(config.model, a_parameter) : bytes;
}

/// The output of every layer and its gradient, for b samples, and on a CPU the fp32 copies of the
/// operands of one bf16 product: a processor without bf16 products makes them. They always count,
/// so that a plan does not depend on the processor that makes it.
double activation_bytes(const RunConfig& config, int64_t local_batch) {
  const ModelConfig& model = config.model;
  const bool keeps_inputs = needs_input(model.activation);
  const double shared_logit = model.linear && !model.tasks.empty() ? 1 : 0;
  double numbers =
      2 * (real(model.dense_features + model.interaction_width() + model.interaction_cost().kept) +
           mixture_outputs(model)) +
      shared_logit;
  double fp32_numbers = real(gate_outputs(model));
  for (const DenseLayer& layer : dense_layers(model).all()) {
    const int kept = 2 + (keeps_inputs && layer.activated ? 1 : 0) + (layer.dropout ? 1 : 0) +
                     (layer.norm ? 1 : 0);
    numbers += kept * real(layer.outputs);
    fp32_numbers += layer.norm ? 2 : 0;  // its statistics
  }
  const bool bf16 = config.train.precision == Precision::kBf16;
  const double element = bf16 ? 2 : 4;
  double sample = numbers * element + 4 * fp32_numbers;
  if (plans_for_gpu(config)) sample += gpu_activation_extra(model, element);
  const double widened = bf16 && !plans_for_gpu(config) ? widened_bytes(model, local_batch) : 0;
  return real(local_batch) * sample + widened;
}

/// E and dE [b, W]. 0 if they are a part of the interaction's activations and gradients.
double local_exchange_bytes(const RunConfig& config, int64_t local_batch) {
  const bool in_place =
      std::visit([](const auto& interaction) { return interaction.embeddings_in_place(); },
                 config.model.interaction);
  if (in_place && !config.model.linear) return 0;
  return 2.0 * real(size_of(config.compute_type())) * real(local_batch) *
         real(config.model.embedding_width());
}

/// Batches read ahead, and the batch in use. On a GPU dense features, labels and weights of the
/// batches in flight, for those read ahead are on the host.
double input_bytes(const RunConfig& config, int64_t local_batch) {
  double sample =  // with labels and a weight
      4.0 * real(config.model.dense_features + config.model.num_labels() + 1);
  if (plans_for_gpu(config)) return (config.batches_ahead() + 2) * real(local_batch) * sample;
  const bool weighted = config.model.weighted();
  for (const TableConfig& table : config.model.tables) {
    sample += 8.0 * (hotness_of(table) + real(table.features.size()));
    if (weighted) sample += 4.0 * hotness_of(table);
  }
  return (config.data.prefetch + 1) * real(local_batch) * sample;
}

}  // namespace

std::vector<DenseLayer> DenseLayers::all() const {
  std::vector<DenseLayer> layers = bottom;
  append(experts, layers);
  append(towers, layers);
  return layers;
}

DenseLayers dense_layers(const ModelConfig& model) {
  DenseLayers layers;
  layers.bottom = mlp_layers(model.dense_features, model.bottom_mlp, model.dropout.bottom > 0,
                             model.layer_norm.bottom, false);
  const bool dropout = model.dropout.top > 0, norm = model.layer_norm.top;
  for (int64_t e = 0; e < model.experts.count; ++e) {
    append(mlp_layers(model.interaction_width(), model.experts.layers, dropout, norm, false),
           layers.experts);
  }
  for (const Tower& tower : model.towers()) {
    append(mlp_layers(model.tower_inputs(), tower.layers, dropout, norm, true), layers.towers);
  }
  return layers;
}

int64_t gate_outputs(const ModelConfig& model) { return model.num_labels() * model.experts.count; }

RankMemory common_memory(const RunConfig& config, int64_t local_batch) {
  RankMemory memory;
  memory.dense = dense_bytes(config);
  memory.activations = activation_bytes(config, local_batch);
  memory.exchange = local_exchange_bytes(config, local_batch);
  memory.input = input_bytes(config, local_batch);
  memory.libraries = plans_for_gpu(config) ? kLibraryBytes : 0;
  return memory;
}

}  // namespace dlrm
