#include "memory.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <variant>

#include "dlrm/core/partition.h"
#include "dlrm/core/row_runs.h"
#include "dlrm/plan/cache_size.h"
#include "dlrm/plan/traffic.h"
#include "dlrm/wire/message_bytes.h"

#include "exchange.h"
#include "numbers.h"

namespace dlrm {
namespace {

/// Buffers of lists whose lengths depend on the ids have room for a quarter more.
constexpr double kGrowth = 1.25;

/// Of GPUs, for any model: workspaces of products (32 MiB for each stream that runs them), code
/// that is loaded when it is first called, descriptor lists, scratch whose size depends on no batch
/// or table, and rounding by the pool.
constexpr double kLibraryBytes = 512.0 * 1024 * 1024;

constexpr double kPadding = 16;        // elements
constexpr double kBytesALongRun = 64;  // the run and its list entries

/// More bytes that a CPU and a GPU sort for an id if ids of its table have weights, with the sorted
/// weights.
constexpr double kWeightedSort = 36, kGpuWeightedSort = 8;

/// Room for a list of so many ids or bags in cut rows, if its capacity recurs
/// (embedding/list_capacities.h), and the buffer may have grown by a quarter. Capacities follow the
/// longest of the first lists, one standard deviation above the mean.
double gpu_list_room(double count) { return 1.25 * (count + 4 + 7 * std::sqrt(count)); }

/// Room for ids and for bags.
struct ListRoom {
  double ids = 0, bags = 0;
};
ListRoom gpu_list_rooms(const RunConfig& config, const TableConfig& table, int64_t rows,
                        int64_t samples, int sources) {
  ListRoom room;
  const double lists = real(std::clamp<int64_t>(samples, 1, sources)),
               local = real(samples) / lists;
  for (const FeatureConfig& feature : table.features) {
    double ids = local * real(feature.hotness);
    if (rows != table.rows) {
      ids = gpu_list_room(ids * real(rows) / real(table.rows));
    }
    const bool lists_bags =
        returns_only_non_empty_bags(config.routing.mode, feature.hotness, {0, rows}, table.rows);
    room.ids += lists * ids;
    room.bags += lists * (lists_bags ? std::min(ids, local) : local);
  }
  return room;
}

double in_flight(const RunConfig& config) { return config.batches_ahead() + 1; }

/// Bytes of a key of the ids that are sorted. Keys count the rows of all tables.
double gpu_key_bytes(const ModelConfig& model) {
  double rows = 0;
  for (const TableConfig& table : model.tables) {
    rows += real(table.rows);
    if (rows > real(std::numeric_limits<uint32_t>::max())) return 8;
  }
  return 4;
}

/// What follows the interaction: the layers of all experts and towers.
struct TowerLayers {
  double outputs = 0;         // of all layers
  double hidden_outputs = 0;  // of all layers but the last of each
  size_t count = 0, hidden = 0;

  explicit TowerLayers(const ModelConfig& model) {
    for (const Tower& tower : model.towers()) add(tower.layers, 1);
    if (model.experts.count > 0)
      add(model.experts.layers, static_cast<size_t>(model.experts.count));
  }

 private:
  void add(const std::vector<int64_t>& layers, size_t mlps) {
    if (layers.empty()) return;
    outputs += real(mlps) * sum_of(layers);
    hidden_outputs += real(mlps) * (sum_of(layers) - real(layers.back()));
    count += mlps * layers.size();
    hidden += mlps * (layers.size() - 1);
  }
};

/// What gates have for a sample: a logit for each task and expert.
int64_t gate_outputs(const ModelConfig& model) { return model.num_labels() * model.experts.count; }

/// Outputs of mixtures and gates, per sample.
double mixture_outputs(const ModelConfig& model) {
  if (model.experts.count == 0) return 0;
  return real(model.num_labels() * model.experts.layers.back() + gate_outputs(model));
}

/// Padding of weight rows to 16 elements, in all arrays that dense_bytes counts for a parameter.
double gpu_weight_padding(const RunConfig& config, double bytes_a_parameter) {
  const ModelConfig& model = config.model;
  const InteractionCost interaction = model.interaction_cost();
  const TowerLayers top(model);
  const double rows = sum_of(model.bottom_mlp) + real(interaction.parameter_rows) + top.outputs +
                      real(gate_outputs(model));
  const size_t norms = (model.layer_norm.bottom ? model.bottom_mlp.size() : 0) +
                       (model.layer_norm.top ? top.count : 0);
  const double tensors = 2.0 * real(model.bottom_mlp.size() + top.count + norms) +
                         real(interaction.tensors) + (model.linear ? 2 : 0) +
                         (model.experts.count > 0 ? 2 : 0) + 1;
  return kPadding * (rows + tensors) * bytes_a_parameter;
}

/// Padding of the rows of layers' outputs and gradients, and the masks of relu: one bit per output.
double gpu_activation_extra(const RunConfig& config, int64_t local_batch) {
  const ModelConfig& model = config.model;
  const double element = config.train.precision == Precision::kBf16 ? 2 : 4;
  const TowerLayers top(model);
  const size_t layers = model.bottom_mlp.size() + top.count;
  const auto hidden = [](bool extra, size_t count) { return extra ? real(count) : 0.0; };
  const double more = hidden(model.dropout.bottom > 0, model.bottom_mlp.size()) +
                      hidden(model.dropout.top > 0, top.count) +
                      hidden(model.layer_norm.bottom, model.bottom_mlp.size()) +
                      hidden(model.layer_norm.top, top.count);
  const double buffers = 2.0 * real(layers) + more + real(model.interaction_cost().tensors) + 8 +
                         (model.experts.count > 0 ? 2.0 * real(model.num_labels()) + 4 : 0);
  const double masks = (sum_of(model.bottom_mlp) + top.outputs) / 8 + 16.0 * real(layers);
  return real(local_batch) * (kPadding * buffers * element + masks);
}

/// routed_bytes() of a GPU.
double gpu_routed_bytes(const RunConfig& config, const TableConfig& table, int64_t rows,
                        int64_t samples, int sources, double key_bytes) {
  const auto [ids, bags] = gpu_list_rooms(config, table, rows, samples, sources);
  const double offsets = bags + real(table.features.size());
  const double runs = 24, sorting = 3 * (key_bytes + 4);
  const double long_run = 4.0 * real(table.dim) + 12.0 * std::ceil(real(table.dim) / 32);
  const double weights = ids * weighted_hotness_of(table) / hotness_of(table);  // on host and GPU
  const double weighted_sort = table.weighted() ? kGpuWeightedSort : 0;
  return in_flight(config) * (12 * ids + 8 * weights + 16 * offsets) +
         ids * (runs + sorting + weighted_sort) +
         ids / real(kLongRun) * 1.1 * (long_run + kBytesALongRun);
}

/// Room in a list of bags, of which there are `most` at most.
double list_room(const RunConfig& config, double count, double most) {
  return plans_for_gpu(config) ? std::min(gpu_list_room(count), most) : kGrowth * count;
}

/// routed_bytes() of a CPU. With *fixed* routing an owner receives the ids of all rows.
double cpu_routed_bytes(const RunConfig& config, const TableConfig& table, int64_t rows,
                        int64_t samples) {
  const bool all = config.routing.mode == RoutingMode::kFixed || rows == table.rows;
  const double growth = all ? 1.0 : kGrowth, share = all ? 1.0 : real(rows) / real(table.rows);
  const double ids = growth * real(samples) * hotness_of(table) * share;
  const double bags =
      growth * real(samples) * expected_vectors(config.routing.mode, table, {0, rows});
  const double weights = growth * real(samples) * weighted_hotness_of(table) * share;
  const double sorted = table.weighted() ? kWeightedSort * ids : 0;
  return in_flight(config) * (16 * ids + 8 * (bags + 1) + 8 * weights) + 40 * ids + sorted;
}

/// The fp32 copies of x [b, in], w [out, in] and y [b, out] of the products of dense layers.
double widened_bytes(const RunConfig& config, int64_t local_batch) {
  const ModelConfig& model = config.model;
  int64_t widest = 0;
  int64_t largest = model.interaction_cost().largest_matrix;
  const auto add_layers = [&](int64_t width, const std::vector<int64_t>& outputs) {
    for (const int64_t out : outputs) {
      widest = std::max({widest, width, out});
      largest = std::max(largest, width * out);
      width = out;
    }
  };
  add_layers(model.dense_features, model.bottom_mlp);
  for (const Tower& tower : model.towers()) add_layers(model.tower_inputs(), tower.layers);
  add_layers(model.interaction_width(), model.experts.layers);
  if (model.experts.count > 0) add_layers(model.interaction_width(), {gate_outputs(model)});
  const int64_t vectors = local_batch * widest;
  return 4.0 * real(2 * vectors + std::max(vectors, largest));
}

/// Outputs of the hidden layers of an MLP, per sample.
double hidden_outputs(const std::vector<int64_t>& sizes) {
  return sizes.empty() ? 0 : sum_of(sizes) - real(sizes.back());
}

/// Elements that dropout keeps and that layer norms read, per sample.
double hidden_extra(const ModelConfig& model) {
  const int bottom = (model.dropout.bottom > 0 ? 1 : 0) + (model.layer_norm.bottom ? 1 : 0);
  const int top = (model.dropout.top > 0 ? 1 : 0) + (model.layer_norm.top ? 1 : 0);
  return bottom * hidden_outputs(model.bottom_mlp) + top * TowerLayers(model).hidden_outputs;
}

/// Bytes of the statistics of layer norms, per sample: two numbers a layer.
double norm_statistics(const ModelConfig& model) {
  const size_t bottom = model.bottom_mlp.empty() ? 0 : model.bottom_mlp.size() - 1;
  return 8.0 * ((model.layer_norm.bottom ? real(bottom) : 0.0) +
                (model.layer_norm.top ? real(TowerLayers(model).hidden) : 0.0));
}

}  // namespace

bool plans_for_gpu(const RunConfig& config) { return config.device == DeviceKind::kCuda; }

bool travels_by_pairs(const RunConfig& config, const TableConfig& table, int world) {
  return !plans_for_gpu(config) &&
         replicates_by_pairs(table, config.train.global_batch_size, world);
}

int64_t table_stride(int64_t width, DType type) {
  const auto element = static_cast<int64_t>(size_of(type));
  const int64_t bytes = width * element;
  const int64_t padded = bytes <= 64
                             ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes)))
                             : (bytes + 63) / 64 * 64;
  return padded / element;
}

double row_bytes(const TableConfig& table, int64_t rows, int64_t width) {
  return real(rows) * real(table_stride(width, table.dtype)) * real(size_of(table.dtype));
}

double state_bytes(OptimizerRule rule, int64_t rows, int64_t width) {
  const OptimizerTraits& traits = traits_of(rule);
  const int64_t stride = traits.rowwise() ? 1 : table_stride(width, DType::kFloat32);
  return 4.0 * traits.state_count() * real(rows) * real(stride);
}

double held_bytes(const RunConfig& config, const TableConfig& table, int64_t rows, int64_t width) {
  return row_bytes(table, rows, width) +
         state_bytes(config.train.sparse_optimizer.type, rows, width);
}

double dense_bytes(const RunConfig& config) {
  const double state = 4.0 * traits_of(config.train.dense_optimizer.type).state_count();
  const double copies = config.train.precision == Precision::kBf16 ? 2 : 0;
  const double a_parameter = 4.0 + 4.0 + state + copies;
  const double bytes = real(config.model.dense_parameters()) * a_parameter;
  return plans_for_gpu(config) ? bytes + gpu_weight_padding(config, a_parameter) : bytes;
}

double activation_bytes(const RunConfig& config, int64_t local_batch) {
  const ModelConfig& model = config.model;
  const TowerLayers top(model);
  const double elements = real(model.dense_features) + sum_of(model.bottom_mlp) +
                          real(model.interaction_width() + model.interaction_cost().kept) +
                          top.outputs + mixture_outputs(model);
  const double element = config.train.precision == Precision::kBf16 ? 2 : 4;
  const bool keeps_inputs = needs_input(model.activation);
  const double inputs = keeps_inputs ? sum_of(model.bottom_mlp) + top.hidden_outputs : 0;
  const double shared_logit = model.linear && !model.tasks.empty() ? 1 : 0;
  const double numbers = 2.0 * elements + inputs + hidden_extra(model) + shared_logit;
  const double shares = 4.0 * real(gate_outputs(model));
  const double bytes = real(local_batch) * (numbers * element + norm_statistics(model) + shares);
  if (plans_for_gpu(config)) return bytes + gpu_activation_extra(config, local_batch);
  const bool widens = config.train.precision == Precision::kBf16;
  return widens ? bytes + widened_bytes(config, local_batch) : bytes;
}

double local_exchange_bytes(const RunConfig& config, int64_t local_batch) {
  const bool in_place =
      std::visit([](const auto& interaction) { return interaction.embeddings_in_place(); },
                 config.model.interaction);
  if (in_place && !config.model.linear) return 0;
  return 2.0 * real(size_of(config.compute_type())) * real(local_batch) *
         real(config.model.embedding_width());
}

double row_sum_bytes(const RunConfig& config, const TableConfig& table, int64_t local_batch) {
  if (config.compute_type() == DType::kFloat32) return 0;
  return 4.0 * real(local_batch) * real(table.features.size()) * real(table.dim);
}

double vector_room(const RunConfig& config, const TableConfig& table, int64_t rows,
                   int64_t local_batch) {
  double room = 0;
  const double bags = real(local_batch);
  for (const FeatureConfig& feature : table.features) {
    const double share =
        returned_share(config.routing.mode, feature.hotness, {0, rows}, table.rows);
    room += share < 1 ? list_room(config, share * bags, bags) : bags;
  }
  return room;
}

double vector_room_of_all(const RunConfig& config, const TableConfig& table, int64_t rows,
                          int world) {
  const int64_t few = config.train.global_batch_size / world;
  const int64_t many = config.train.global_batch_size % world;  // ranks with one more sample
  const double room = real(world - many) * vector_room(config, table, rows, few);
  return many == 0 ? room : room + real(many) * vector_room(config, table, rows, few + 1);
}

double message_float_bytes(const WireConfig& wire) {
  return real(std::max(size_of(wire.forward), size_of(wire.backward)));
}

double owned_float_bytes(const WireConfig& wire) {
  const auto sent = [](DType type) { return pooled_as(type) == type ? 0 : size_of(type); };
  return real(std::max(size_of(pooled_as(wire.forward)), size_of(pooled_as(wire.backward))) +
              std::max(sent(wire.forward), sent(wire.backward)));
}

double owner_exchange_bytes(const RunConfig& config, const TableConfig& table, int64_t rows,
                            int64_t width, int world, DType gradient) {
  if (pools_locally(table, rows, world)) return 0;
  return vector_room_of_all(config, table, rows, world) * real(width) *
         owned_float_bytes(vector_types(config, table, rows, width, gradient));
}

double summed_exchange_bytes(const RunConfig& config, const TableConfig& table, double width,
                             double part, double shards, DType gradient) {
  const double bags = real(config.train.global_batch_size) * real(table.features.size());
  const double partial = width + (width - part) + shards * part;
  const WireConfig sent{config.train.wire.forward, gradient};
  return bags * (4.0 * partial + part * owned_float_bytes(sent));
}

double replicated_gradient_bytes(const RunConfig& config, const TableConfig& table, int world) {
  if (plans_for_gpu(config) && world == 1) return 0;
  const double local = real(largest_part(config.train.global_batch_size, world));
  if (!travels_by_pairs(config, table, world)) {
    return real(table.rows) * real(table.dim + 1) * 4.0;
  }
  const double unique =
      expected_unique_rows(table.rows, local * hotness_of(table), skew_of_ids(config));
  return unique * ((world + 1) * (8.0 + 4.0 * real(table.dim)) + world * 24.0);
}

double max_gradient_bytes(const TableConfig& table, int64_t width, int64_t samples) {
  return 4.0 * real(width) * real(samples) * max_hotness_of(table);
}

double gpu_message_bytes(const RunConfig& config, const TableConfig& table) {
  const double batch = real(config.train.global_batch_size);
  return in_flight(config) * batch *
         (real(wire_id_bytes(table.rows)) * hotness_of(table) + 4.0 * real(table.features.size()));
}

double gpu_square_sum_bytes(const RunConfig& config, const TableConfig& table, int64_t rows,
                            int64_t width, int world, bool ordered) {
  if (!needs_row_norms(config.train.sparse_optimizer)) return 0;
  if (width == table.dim) return 0;
  const double orders = ordered ? 4 + 8 * in_flight(config) : 0;
  return gpu_list_rooms(config, table, rows, config.train.global_batch_size, world).ids *
         (4.0 * real(width) + 24 + orders);
}

ModelTypes model_types(const RunConfig& config) {
  return {plans_for_gpu(config) ? gpu_key_bytes(config.model) : 0, config.sent_types().backward};
}

double routed_bytes(const RunConfig& config, const TableConfig& table, int64_t rows,
                    int64_t samples, int sources, double key_bytes) {
  const double separated = 8 * real(samples) * max_hotness_of(table);  // offsets
  if (plans_for_gpu(config)) {
    return separated + gpu_routed_bytes(config, table, rows, samples, sources, key_bytes);
  }
  return separated + cpu_routed_bytes(config, table, rows, samples);
}

double returned_list_bytes(const RunConfig& config, const TableConfig& table, Range rows,
                           int64_t local_batch) {
  const double share = real(rows.size()) / real(table.rows);
  double entries = 0;
  for (const FeatureConfig& feature : table.features) {
    if (!returns_only_non_empty_bags(config.routing.mode, feature.hotness, rows, table.rows)) {
      continue;
    }
    entries += plans_for_gpu(config) ? 1.0 : real(feature.hotness) * share;
  }
  return in_flight(config) * 8.0 * real(local_batch) * entries;
}

double input_bytes(const RunConfig& config, int64_t local_batch) {
  if (plans_for_gpu(config)) {
    return (in_flight(config) + 1) * real(local_batch) * 4.0 *
           real(config.model.dense_features + config.model.num_labels() + 1);
  }
  double sample =  // with labels and a weight
      4.0 * real(config.model.dense_features + config.model.num_labels() + 1);
  for (const TableConfig& table : config.model.tables) {
    sample += 8.0 * (hotness_of(table) + real(table.features.size()));
    if (config.model.weighted()) sample += 4.0 * hotness_of(table);
  }
  return (config.data.prefetch + 1) * real(local_batch) * sample;
}

double shard_owner_bytes(const RunConfig& config, const TableConfig& table, int64_t rows,
                         int64_t width, int world, const double* held, const ModelTypes& types) {
  const double buffers =
      owner_exchange_bytes(config, table, rows, width, world, types.gradient) +
      max_gradient_bytes(table, width, config.train.global_batch_size) +
      routed_bytes(config, table, rows, config.train.global_batch_size, world, types.key_bytes);
  if (held) return cached_shard_bytes(config, table, rows, width, *held) + buffers;
  return held_bytes(config, table, rows, width) + buffers;
}

double library_bytes(const RunConfig& config) { return plans_for_gpu(config) ? kLibraryBytes : 0; }

double least_common_bytes(const RunConfig& config, int64_t local_batch) {
  return dense_bytes(config) + activation_bytes(config, local_batch) +
         local_exchange_bytes(config, local_batch) + input_bytes(config, local_batch) +
         library_bytes(config);
}

double common_bytes(const RunConfig& config, int world, int64_t local_batch) {
  double bytes = least_common_bytes(config, local_batch);
  const DType gradient = config.sent_types().backward;
  for (const TableConfig& table : config.model.tables) {
    if (pools_locally(table, table.rows, world)) continue;
    bytes += real(local_batch) * real(table.features.size()) * real(table.dim) *
             message_float_bytes(vector_types(config, table, table.rows, table.dim, gradient));
  }
  return bytes;
}

}  // namespace dlrm
