#include "memory.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "dlrm/core/partition.h"
#include "dlrm/core/row_runs.h"
#include "dlrm/plan/cache_size.h"
#include "dlrm/plan/traffic.h"
#include "dlrm/wire/message_bytes.h"

#include "numbers.h"

namespace dlrm {
namespace {

/// Buffers of lists whose lengths depend on the ids have room for a quarter more.
constexpr double kGrowth = 1.25;

/// Of GPUs, for any model: workspaces of products (32 MiB for each stream that runs them), code
/// that is loaded when it is first called, descriptor lists, scratch whose size depends on no batch
/// or table, and rounding by the pool.
constexpr double kLibraryBytes = 512.0 * 1024 * 1024;

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

/// Vectors of a shard for a rank of `local_batch` samples, as buffers have room for: one for each
/// bag of a feature, or a quarter more than the expected number of bags that have an id here.
double vector_room(const RunConfig& config, const TableConfig& table, Range rows,
                   int64_t local_batch) {
  double room = 0;
  const double bags = real(local_batch);
  for (const FeatureConfig& feature : table.features) {
    const double share = returned_share(config.routing.mode, feature.hotness, rows, table.rows);
    room += share < 1 ? list_room(config, share * bags, bags) : bags;
  }
  return room;
}

/// Of a vector and its gradient, which share a buffer, a float in the message, on the rank of the
/// sample; and on the shard's owner, in fp32 or bf16, and again as sent if that is another type.
double message_float_bytes(const WireConfig& wire) {
  return real(std::max(size_of(wire.forward), size_of(wire.backward)));
}
double owned_float_bytes(const WireConfig& wire) {
  const auto sent = [](DType type) { return pooled_as(type) == type ? 0 : size_of(type); };
  return real(std::max(size_of(pooled_as(wire.forward)), size_of(pooled_as(wire.backward))) +
              std::max(sent(wire.forward), sent(wire.backward)));
}

WireConfig sent_types(const RunConfig& config, const TableConfig& table, const Shard& shard,
                      DType gradient) {
  return {vector_type(config, table, shard.rows.size(), shard.columns.size()), gradient,
          config.train.wire.dense};
}

/// Gradients of the ids of features with max pooling, in fp32, for `samples` samples on `width`
/// columns.
double max_gradient_bytes(const TableConfig& table, int64_t width, int64_t samples) {
  return 4.0 * real(width) * real(samples) * max_hotness_of(table);
}

/// On a GPU, of a row-wise rule on some of the columns: gradients by row, exchanged before the
/// update, and their orders, which only rows that are cut unevenly or cached need.
double gpu_norm_bytes(const RunConfig& config, const TableConfig& table, const Shard& shard,
                      int world) {
  const int64_t width = shard.columns.size();
  const bool exchanges = needs_row_norms(config.train.sparse_optimizer) && width < table.dim;
  if (!plans_for_gpu(config) || !exchanges) return 0;
  const ListRoom room =
      gpu_list_rooms(config, table, shard.rows.size(), config.train.global_batch_size, world);
  return room.ids * (4.0 * real(width) + 28 + 8 * in_flight(config));
}

/// Rows and their state, in either memory.
RankMemory held_memory(const RunConfig& config, const TableConfig& table, int64_t rows,
                       int64_t width, bool on_host) {
  RankMemory memory;
  (on_host ? memory.host_tables : memory.tables) = row_bytes(table, rows, width);
  (on_host ? memory.host_optimizer_state : memory.optimizer_state) =
      state_bytes(config.train.sparse_optimizer.type, rows, width);
  return memory;
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

double row_sum_bytes(const RunConfig& config, const TableConfig& table, int64_t local_batch) {
  if (config.compute_type() == DType::kFloat32) return 0;
  return 4.0 * real(local_batch) * real(table.features.size()) * real(table.dim);
}

double owner_exchange_bytes(const RunConfig& config, const TableConfig& table, const Shard& shard,
                            int world, DType gradient) {
  const int64_t few = config.train.global_batch_size / world;
  const int64_t many = config.train.global_batch_size % world;  // ranks with one more sample
  const double room = real(world - many) * vector_room(config, table, shard.rows, few) +
                      real(many) * vector_room(config, table, shard.rows, few + 1);
  return room * real(shard.columns.size()) *
         owned_float_bytes(sent_types(config, table, shard, gradient));
}

double message_bytes(const RunConfig& config, const TableConfig& table, const Shard& shard,
                     int64_t local_batch, DType gradient) {
  return vector_room(config, table, shard.rows, local_batch) * real(shard.columns.size()) *
         message_float_bytes(sent_types(config, table, shard, gradient));
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

double gpu_message_bytes(const RunConfig& config, const TableConfig& table) {
  const double batch = real(config.train.global_batch_size);
  return in_flight(config) * batch *
         (real(wire_id_bytes(table.rows)) * hotness_of(table) + 4.0 * real(table.features.size()));
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

RankMemory shard_memory(const RunConfig& config, const TableConfig& table, const Shard& shard,
                        int world, bool exchanges, const ModelTypes& types) {
  const int64_t rows = shard.rows.size(), width = shard.columns.size();
  const int64_t batch = config.train.global_batch_size;
  RankMemory memory;
  if (shard.tier != MemoryTier::kCached) {
    memory = held_memory(config, table, rows, width, shard.tier == MemoryTier::kHost);
  }
  memory.exchange =
      max_gradient_bytes(table, width, batch) + gpu_norm_bytes(config, table, shard, world);
  if (exchanges) {
    memory.exchange += owner_exchange_bytes(config, table, shard, world, types.gradient);
  }
  memory.routing = routed_bytes(config, table, rows, batch, world, types.key_bytes);
  return memory;
}

RankMemory replica_memory(const RunConfig& config, const TableConfig& table, int world,
                          bool on_host, const ModelTypes& types) {
  const int64_t samples = largest_part(config.train.global_batch_size, world);
  RankMemory memory = held_memory(config, table, table.rows, table.dim, on_host);
  memory.exchange = replicated_gradient_bytes(config, table, world) +
                    max_gradient_bytes(table, table.dim, samples);
  memory.routing = routed_bytes(config, table, table.rows, samples, 1, types.key_bytes);
  return memory;
}

RankMemory least_common_memory(const RunConfig& config, int64_t local_batch) {
  RankMemory memory;
  memory.dense = dense_bytes(config);
  memory.activations = activation_bytes(config, local_batch);
  memory.exchange = local_exchange_bytes(config, local_batch);
  memory.input = input_bytes(config, local_batch);
  memory.libraries = plans_for_gpu(config) ? kLibraryBytes : 0;
  return memory;
}

double common_bytes(const RunConfig& config, int world) {
  const int64_t local = config.train.global_batch_size / world;
  const DType gradient = config.sent_types().backward;
  double bytes = least_common_memory(config, local).total();
  for (const TableConfig& table : config.model.tables) {
    if (world == 1) continue;
    const Shard whole{0, {0, table.rows}, {0, table.dim}};
    bytes += message_bytes(config, table, whole, local, gradient);
  }
  return bytes;
}

}  // namespace dlrm
