#include "memory.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "dlrm/core/row_runs.h"
#include "dlrm/plan/traffic.h"
#include "dlrm/wire/list_room.h"
#include "dlrm/wire/message_bytes.h"

#include "numbers.h"

namespace dlrm {
namespace {

/// Buffers of lists whose lengths depend on the ids have room for a quarter more.
constexpr double kGrowth = 1.25;

constexpr double kBytesALongRun = 64;  // the run and its list entries

/// More bytes that a CPU and a GPU sort for an id if ids of its table have weights, with the sorted
/// weights.
constexpr double kWeightedSort = 36, kGpuWeightedSort = 8;

/// Room for a list of so many ids or bags in cut rows, where the buffer may have grown by a
/// quarter. Capacities follow the longest of the first lists, one standard deviation above the
/// mean.
double gpu_list_room(double count) { return kGrowth * list_room(count, kRoomDeviations + 1); }

/// Keys count the rows of all tables.
double gpu_key_bytes(const ModelConfig& model) {
  double rows = 0;
  for (const TableConfig& table : model.tables) {
    rows += real(table.rows);
    if (rows > real(std::numeric_limits<uint32_t>::max())) return 8;
  }
  return 4;
}

/// Gradients of the ids of features with max pooling, in fp32, for `samples` samples on `width`
/// columns.
double max_gradient_bytes(const TableConfig& table, int64_t width, int64_t samples) {
  return 4.0 * real(width) * real(samples) * max_hotness_of(table);
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

TableMemory::TableMemory(const RunConfig& config, int world)
    : config_(config),
      world_(world),
      gpu_(plans_for_gpu(config)),
      in_flight_(config.batches_ahead() + 1),
      gradient_(config.sent_types().backward),
      key_bytes_(gpu_ ? gpu_key_bytes(config.model) : 0) {}

RankMemory TableMemory::shard(const TableConfig& table, const Shard& shard, bool exchanges) const {
  const int64_t rows = shard.rows.size(), width = shard.columns.size();
  const int64_t batch = config_.train.global_batch_size;
  RankMemory memory;
  if (shard.tier != MemoryTier::kCached) {
    memory = held(table, rows, width, shard.tier == MemoryTier::kHost);
  }
  memory.exchange = max_gradient_bytes(table, width, batch) + gpu_norms(table, shard);
  if (exchanges) memory.exchange += owned_vectors(table, shard);
  memory.routing = routed(table, rows, batch, world_);
  return memory;
}

RankMemory TableMemory::replica(const TableConfig& table, bool on_host) const {
  const int64_t samples = largest_part(config_.train.global_batch_size, world_);
  RankMemory memory = held(table, table.rows, table.dim, on_host);
  memory.exchange = replicated_gradients(table) + max_gradient_bytes(table, table.dim, samples);
  memory.routing = routed(table, table.rows, samples, 1);
  return memory;
}

double TableMemory::common() const {
  const int64_t local = config_.train.global_batch_size / world_;
  double bytes = common_memory(config_, local).total();
  for (const TableConfig& table : config_.model.tables) {
    if (world_ == 1) continue;
    bytes += received_vectors(table, {0, {0, table.rows}, {0, table.dim}}, local);
  }
  return bytes;
}

/// Rows and their state, in either memory.
RankMemory TableMemory::held(const TableConfig& table, int64_t rows, int64_t width,
                             bool on_host) const {
  RankMemory memory;
  (on_host ? memory.host_tables : memory.tables) = row_bytes(table, rows, width);
  (on_host ? memory.host_optimizer_state : memory.optimizer_state) =
      state_bytes(config_.train.sparse_optimizer.type, rows, width);
  return memory;
}

double TableMemory::owned_vectors(const TableConfig& table, const Shard& shard) const {
  const int64_t few = config_.train.global_batch_size / world_;
  const int64_t many = config_.train.global_batch_size % world_;  // ranks with one more sample
  const double room = real(world_ - many) * vector_room(table, shard.rows, few) +
                      real(many) * vector_room(table, shard.rows, few + 1);
  return room * real(shard.columns.size()) * float_bytes(table, shard).owned;
}

double TableMemory::received_vectors(const TableConfig& table, const Shard& shard,
                                     int64_t local_batch) const {
  return vector_room(table, shard.rows, local_batch) * real(shard.columns.size()) *
         float_bytes(table, shard).message;
}

double TableMemory::summed_vectors(const NodeSum& sum, size_t i) const {
  const auto width = real(sum.columns.size()), part = real(sum.part(i).size());
  const double bags =
      real(config_.train.global_batch_size) * real(table_of(config_, sum.table).features.size());
  const double partial = width + (width - part) + real(sum.shards.size()) * part;
  return bags * (4.0 * partial + part * float_bytes(config_.train.wire.forward).owned);
}

double TableMemory::received_vectors(const NodeSum& sum, int64_t local_batch) const {
  return real(local_batch) * real(table_of(config_, sum.table).features.size()) *
         real(sum.columns.size()) * float_bytes(config_.train.wire.forward).message;
}

/// Vectors of a shard for a rank of `local_batch` samples, as buffers have room for: one for each
/// bag of a feature, or a quarter more than the expected number of bags that have an id here.
double TableMemory::vector_room(const TableConfig& table, Range rows, int64_t local_batch) const {
  double room = 0;
  const double bags = real(local_batch);
  for (const FeatureConfig& feature : table.features) {
    const double share = returned_share(config_.routing.mode, feature.hotness, rows, table.rows);
    const double returned =
        gpu_ ? std::min(gpu_list_room(share * bags), bags) : kGrowth * share * bags;
    room += share < 1 ? returned : bags;
  }
  return room;
}

TableMemory::FloatBytes TableMemory::float_bytes(DType forward) const {
  const auto sent = [](DType type) { return pooled_as(type) == type ? 0 : size_of(type); };
  return {real(std::max(size_of(forward), size_of(gradient_))),
          real(std::max(size_of(pooled_as(forward)), size_of(pooled_as(gradient_))) +
               std::max(sent(forward), sent(gradient_)))};
}

TableMemory::FloatBytes TableMemory::float_bytes(const TableConfig& table,
                                                 const Shard& shard) const {
  return float_bytes(vector_type(config_, table, shard.rows.size(), shard.columns.size()));
}

double TableMemory::replicated_gradients(const TableConfig& table) const {
  if (gpu_ && world_ == 1) return 0;
  if (!travels_by_pairs(config_, table, world_)) {
    return real(table.rows) * real(table.dim + 1) * 4.0;
  }
  const double local = real(largest_part(config_.train.global_batch_size, world_));
  const double unique =
      expected_unique_rows(table.rows, local * hotness_of(table), skew_of_ids(config_));
  return unique * ((world_ + 1) * pair_bytes(table) + world_ * 24.0);
}

/// On a GPU, of a row-wise rule on some of the columns: gradients by row, exchanged before the
/// update, and their orders, which only rows that are cut unevenly or cached need.
double TableMemory::gpu_norms(const TableConfig& table, const Shard& shard) const {
  const int64_t width = shard.columns.size();
  const bool exchanges = needs_row_norms(config_.train.sparse_optimizer) && width < table.dim;
  if (!gpu_ || !exchanges) return 0;
  const ListRoom room =
      gpu_lists(table, shard.rows.size(), config_.train.global_batch_size, world_);
  return room.ids * (4.0 * real(width) + 28 + 8 * in_flight_);
}

double TableMemory::routed(const TableConfig& table, int64_t rows, int64_t samples,
                           int sources) const {
  const double separated = 8 * real(samples) * max_hotness_of(table);  // offsets
  return separated +
         (gpu_ ? gpu_routed(table, rows, samples, sources) : cpu_routed(table, rows, samples));
}

/// With *fixed* routing an owner receives the ids of all rows.
double TableMemory::cpu_routed(const TableConfig& table, int64_t rows, int64_t samples) const {
  const bool all = config_.routing.mode == RoutingMode::kFixed || rows == table.rows;
  const double growth = all ? 1.0 : kGrowth, share = all ? 1.0 : real(rows) / real(table.rows);
  const double ids = growth * real(samples) * hotness_of(table) * share;
  const double bags =
      growth * real(samples) * expected_vectors(config_.routing.mode, table, {0, rows});
  const double weights = growth * real(samples) * weighted_hotness_of(table) * share;
  const double sorted = table.weighted() ? kWeightedSort * ids : 0;
  return in_flight_ * (16 * ids + 8 * (bags + 1) + 8 * weights) + 40 * ids + sorted;
}

double TableMemory::gpu_routed(const TableConfig& table, int64_t rows, int64_t samples,
                               int sources) const {
  const auto [ids, bags] = gpu_lists(table, rows, samples, sources);
  const double offsets = bags + real(table.features.size());
  const double runs = 24, sorting = 3 * (key_bytes_ + 4);
  const double long_run = 4.0 * real(table.dim) + 12.0 * std::ceil(real(table.dim) / 32);
  const double weights = ids * weighted_hotness_of(table) / hotness_of(table);  // on host and GPU
  const double weighted_sort = table.weighted() ? kGpuWeightedSort : 0;
  return in_flight_ * (12 * ids + 8 * weights + 16 * offsets) +
         ids * (runs + sorting + weighted_sort) +
         ids / real(kLongRun) * 1.1 * (long_run + kBytesALongRun);
}

TableMemory::ListRoom TableMemory::gpu_lists(const TableConfig& table, int64_t rows,
                                             int64_t samples, int sources) const {
  ListRoom room;
  const double lists = real(std::clamp<int64_t>(samples, 1, sources)),
               local = real(samples) / lists;
  for (const FeatureConfig& feature : table.features) {
    double ids = local * real(feature.hotness);
    if (rows != table.rows) ids = gpu_list_room(ids * real(rows) / real(table.rows));
    const bool lists_bags =
        returns_only_non_empty_bags(config_.routing.mode, feature.hotness, {0, rows}, table.rows);
    room.ids += lists * ids;
    room.bags += lists * (lists_bags ? std::min(ids, local) + 1 : local);
  }
  return room;
}

double TableMemory::returned_lists(const TableConfig& table, Range rows,
                                   int64_t local_batch) const {
  const double share = real(rows.size()) / real(table.rows);
  double entries = 0;
  for (const FeatureConfig& feature : table.features) {
    if (!returns_only_non_empty_bags(config_.routing.mode, feature.hotness, rows, table.rows)) {
      continue;
    }
    entries += gpu_ ? 1.0 : real(feature.hotness) * share;
  }
  return in_flight_ * 8.0 * real(local_batch) * entries;
}

double TableMemory::gpu_messages(const TableConfig& table) const {
  return in_flight_ * real(config_.train.global_batch_size) *
         (real(wire_id_bytes(table.rows)) * hotness_of(table) + 4.0 * real(table.features.size()));
}

}  // namespace dlrm
