#include "memory.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "dlrm/plan/cache_size.h"
#include "dlrm/plan/traffic.h"

#include "gpu_memory.h"

namespace dlrm {
namespace {

double real(int64_t value) { return static_cast<double>(value); }
double real(size_t value) { return static_cast<double>(value); }

double sum_of(const std::vector<int64_t>& values) {
  return real(std::accumulate(values.begin(), values.end(), int64_t{0}));
}

double owner_buffer_bytes(const RunConfig& config, const TableConfig& table, int64_t rows,
                          int64_t width) {
  return owner_exchange_bytes(config, table, width) +
         routed_bytes(config, table, rows, config.train.global_batch_size);
}

}  // namespace

bool plans_for_gpu(const RunConfig& config) { return config.device == DeviceKind::kCuda; }

bool travels_by_pairs(const RunConfig& config, const TableConfig& table, int world) {
  return !plans_for_gpu(config) &&
         replicates_by_pairs(table, config.train.global_batch_size, world);
}

int64_t row_stride(int64_t width, DType type) {
  const auto element = static_cast<int64_t>(size_of(type));
  const int64_t bytes = width * element;
  const int64_t padded = bytes <= 64
                             ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes)))
                             : (bytes + 63) / 64 * 64;
  return padded / element;
}

double row_bytes(const TableConfig& table, int64_t rows, int64_t width) {
  return real(rows) * real(row_stride(width, table.dtype)) * real(size_of(table.dtype));
}

double state_bytes(OptimizerRule rule, int64_t rows, int64_t width) {
  const OptimizerTraits& traits = traits_of(rule);
  const int64_t stride = traits.rowwise() ? 1 : row_stride(width, DType::kFloat32);
  return 4.0 * traits.state_count() * real(rows) * real(stride);
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
  const double elements = real(model.dense_features) + sum_of(model.bottom_mlp) +
                          real(model.interaction_width() + model.interaction_cost().kept) +
                          sum_of(model.top_mlp);
  const double element = config.train.precision == Precision::kBf16 ? 2 : 4;
  const bool keeps_inputs = needs_input(model.activation);
  const double inputs =
      keeps_inputs ? sum_of(model.bottom_mlp) + sum_of(model.top_mlp) - model.top_mlp.back() : 0;
  const double bytes = real(local_batch) * (2.0 * elements + inputs) * element;
  return plans_for_gpu(config) ? bytes + gpu_activation_extra(config, local_batch) : bytes;
}

double local_exchange_bytes(const RunConfig& config, int64_t local_batch) {
  return 2.0 * 4.0 * real(local_batch) * real(config.model.embedding_width());
}

double shard_message_bytes(const RunConfig& config, const TableConfig& table, int64_t width,
                           int64_t local_batch) {
  const WireConfig& wire = config.train.wire;
  return real(local_batch) * real(table.features.size()) * real(width) *
         real(size_of(wire.forward) + size_of(wire.backward));
}

double owner_exchange_bytes(const RunConfig& config, const TableConfig& table, int64_t width) {
  const double vectors = real(config.train.global_batch_size) * real(table.features.size());
  const auto one_way = [&](DType wire) {
    return vectors * real(width) * (4.0 + (wire == DType::kFloat32 ? 0.0 : real(size_of(wire))));
  };
  return one_way(config.train.wire.forward) + one_way(config.train.wire.backward);
}

double replicated_gradient_bytes(const RunConfig& config, const TableConfig& table, int world) {
  if (plans_for_gpu(config)) return gpu_replicated_bytes(table, world);
  const double local = real(largest_part(config.train.global_batch_size, world));
  if (!travels_by_pairs(config, table, world)) {
    return real(table.rows) * real(table.dim + 1) * 4.0;
  }
  const double unique = expected_unique_rows(real(table.rows), local * hotness_of(table));
  return world * unique * (8.0 + 4.0 * real(table.dim));
}

double routed_bytes(const RunConfig& config, const TableConfig& table, int64_t rows,
                    int64_t samples) {
  if (plans_for_gpu(config)) return gpu_routed_bytes(config, table, rows, samples);
  // With *fixed* routing an owner receives the ids of all rows.
  const bool all = config.routing.mode == RoutingMode::kFixed;
  const double share = all ? 1.0 : real(rows) / real(table.rows);
  const double ids = real(samples) * hotness_of(table) * share;
  const double bags = real(samples) * real(table.features.size());
  return (config.batches_ahead() + 1) * (24.0 * ids + 8.0 * (bags + 1));
}

double returned_list_bytes(const RunConfig& config, const TableConfig& table, Range rows,
                           int64_t local_batch) {
  const auto lists = std::count_if(
      table.features.begin(), table.features.end(), [&](const FeatureConfig& feature) {
        return returns_only_non_empty_bags(config.routing.mode, feature.hotness, rows, table.rows);
      });
  return (config.batches_ahead() + 1) * 8.0 * real(local_batch) * real(int64_t{lists});
}

double input_bytes(const RunConfig& config, int64_t local_batch) {
  if (plans_for_gpu(config)) return gpu_input_bytes(config, local_batch);
  double sample = 4.0 * real(config.model.dense_features) + 8.0;  // with label and weight
  for (const TableConfig& table : config.model.tables) {
    sample += 8.0 * (hotness_of(table) + real(table.features.size()));
  }
  return (config.data.prefetch + 1) * real(local_batch) * sample;
}

double shard_owner_bytes(const RunConfig& config, const TableConfig& table, int64_t rows,
                         int64_t width) {
  if (is_cached(config, table)) {
    return shard_owner_bytes(config, table, rows, width, cached_share(config, table));
  }
  return row_bytes(table, rows, width) +
         state_bytes(config.train.sparse_optimizer.type, rows, width) +
         owner_buffer_bytes(config, table, rows, width);
}

double shard_owner_bytes(const RunConfig& config, const TableConfig& table, int64_t rows,
                         int64_t width, double held) {
  return cached_shard_bytes(config, table, rows, width, held) +
         owner_buffer_bytes(config, table, rows, width);
}

double library_bytes(const RunConfig& config) {
  return plans_for_gpu(config) ? kGpuLibraryBytes : 0;
}

double common_bytes(const RunConfig& config, int world) {
  const int64_t local = largest_part(config.train.global_batch_size, world);
  double bytes = dense_bytes(config) + activation_bytes(config, local) +
                 local_exchange_bytes(config, local) + input_bytes(config, local) +
                 library_bytes(config);
  for (const TableConfig& table : config.model.tables) {
    bytes += shard_message_bytes(config, table, table.dim, local);
  }
  return bytes;
}

}  // namespace dlrm
