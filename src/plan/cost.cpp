#include "cost.h"

#include <algorithm>
#include <cmath>

#include "dlrm/plan/cache_size.h"
#include "dlrm/plan/node_sums.h"
#include "dlrm/plan/traffic.h"

#include "memory.h"
#include "numbers.h"

namespace dlrm {
namespace {

MachineSpeed speed_of(const RunConfig& config) {
  const std::string& machine = config.sharding.machine;
  return machine.empty() ? MachineSpeed() : read_machine(machine).speed;
}

/// Bytes of memory that a rank reads in the time that a shard takes whatever its size, where the
/// machine's is not known: 3.6 µs of a core of a CPU with the default speed
/// (docs/benchmarks/scaling.md).
constexpr double kShardBytes = 3.6e-6 * MachineSpeed().memory;

/// Bytes that a rank with a GPU reads about a shard with bags of its samples, whoever owns it:
/// where their vectors and gradients lie, each in a kernels::CopyRectangle. Counted for all ranks.
constexpr double kReadBytesOfShard = 2 * 96;

/// Passes over memory for each byte that is exchanged for a node sum: it is copied to a message,
/// and from it.
constexpr double kPassesOfSum = 4;

/// The type in which the rank of the rows has gradients of pooled vectors.
DType owned_gradient(const RunConfig& config, int world) {
  const DType type = config.compute_type();
  return world == 1 || type == config.sent_types().backward ? type : DType::kFloat32;
}

double vector_bytes(int64_t width, DType type) { return real(width) * real(size_of(type)); }

/// Some of the bytes to other ranks stay on the node. The others pass through its network card.
double exchanged_byte(const MachineSpeed& speed, int world, int ranks_per_node) {
  if (world == 1) return 0;
  const int on_node = std::min(world, ranks_per_node > 0 ? ranks_per_node : speed.ranks_per_node);
  const double local = real(on_node - 1) / (world - 1);
  return local / speed.local + (1 - local) * on_node / speed.network;
}

}  // namespace

CostModel::CostModel(const RunConfig& config, int world, const PlanOptions& options)
    : config_(config),
      world_(world),
      owned_gradient_(owned_gradient(config, world)),
      speed_(speed_of(config)),
      seconds_per_exchanged_byte_(exchanged_byte(speed_, world, options.ranks_per_node)),
      alpha_(skew_of_ids(config)),
      memory_(config, world),
      held_(cached_shares(config)),
      known_parts_(std::max<size_t>(8192, 4 * config.model.tables.size())) {}

CostModel CostModel::of_nodes(int ranks_per_node) const {
  CostModel cost = *this;
  cost.on_node_ = ranks_per_node;
  cost.known_parts_.assign(cost.known_parts_.size(), {});
  return cost;
}

double CostModel::bytes(const TableConfig& table, int64_t rows, int64_t width) const {
  Part& known = part(table, rows, width);
  if (known.bytes < 0) {
    const auto held = held_.find(table.name);
    const bool cached = held != held_.end();
    const Range own_rows{0, largest_part(rows, known.cut.rows)};
    const Range columns{0, largest_part(width, known.cut.columns)};
    const MemoryTier tier = cached ? MemoryTier::kCached : MemoryTier::kDevice;
    const bool exchanges = world_ > 1 || own_rows.size() < table.rows;
    known.bytes = memory_.shard(table, {0, own_rows, columns, 0, tier}, exchanges).total();
    if (cached) {
      known.bytes +=
          cached_shard_bytes(config_, table, own_rows.size(), columns.size(), held->second);
    }
  }
  return known.bytes;
}

double CostModel::unique_rows(const TableConfig& table, double lookups) const {
  const auto [known, is_new] = known_unique_.try_emplace({table.rows, lookups});
  if (is_new) known->second = expected_unique_rows(table.rows, lookups, alpha_);
  return known->second;
}

double CostModel::row_lines(const TableConfig& table, int64_t width) const {
  const double bytes = real(width) * real(size_of(table.dtype));
  return std::ceil(bytes / speed_.line) * speed_.line;
}

double CostModel::state_lines(int64_t width) const {
  const double bytes = state_bytes(config_.train.sparse_optimizer.type, 1, width);
  return std::ceil(bytes / speed_.line) * speed_.line;
}

DType CostModel::owned_type(const TableConfig& table, int64_t rows, int64_t width) const {
  const DType type = config_.compute_type();
  return world_ == 1 || type == vector_type(config_, table, rows, width) ? type : DType::kFloat32;
}

double CostModel::exchange(double bytes) const { return bytes * seconds_per_exchanged_byte_; }

double CostModel::shard_seconds() const {
  if (speed_.shard > 0) return speed_.shard;
  const double read = speed_.gpu ? kReadBytesOfShard * world_ : 0;
  return std::max(kShardBytes, read) / speed_.memory;
}

TableWork CostModel::shard_work(const TableConfig& table, int64_t rows, int64_t width) const {
  const auto batch = real(config_.train.global_batch_size);
  const double share = real(rows) / real(table.rows);
  const double hotness = hotness_of(table);
  TableWork work;
  work.lookups = batch * hotness * share;
  work.max_lookups = batch * max_hotness_of(table) * share;
  work.unique = share * unique_rows(table, batch * hotness);
  work.vectors = batch * expected_vectors(config_.routing.mode, table, {0, rows});
  work.row_bytes = row_lines(table, width);
  work.state_bytes = state_lines(width);
  work.vector_bytes = vector_bytes(width, owned_type(table, rows, width));
  work.gradient_bytes = vector_bytes(width, owned_gradient_);
  return work;
}

double CostModel::routing_bytes(const TableWork& work) const {
  return work.lookups * speed_.routing_bytes_per_id;
}

/// Bytes of memory of a step: forward_bytes(), routing_bytes() and those of the update. Vectors
/// count as fp32, and so does their exchange below, also if they are bf16. A rank's cost is a sum,
/// but in each phase of a step ranks wait for the slowest. Plans for DCNv2 in bf16 that were
/// balanced with smaller vectors had longer phases: 2.33 instead of 2.02 ms in a simulated step on
/// 8 H200.
double CostModel::looked_up(const TableWork& work, int64_t width) const {
  const double vector = 4.0 * real(width);
  return work.lookups * (work.row_bytes + vector + speed_.routing_bytes_per_id) +
         work.max_lookups * (work.row_bytes + vector) +
         2 * work.unique * (work.row_bytes + work.state_bytes) + 2 * work.vectors * vector;
}

double CostModel::shard(const TableConfig& table, int64_t rows, int64_t width) const {
  return part(table, rows, width).seconds;
}

Cut CostModel::node_cut(const TableConfig& table, int64_t rows, int64_t width) const {
  return part(table, rows, width).cut;
}

CostModel::Part& CostModel::part(const TableConfig& table, int64_t rows, int64_t width) const {
  // Many of the numbers are multiples of a power of two.
  constexpr uint64_t kMix = 0x9E3779B97F4A7C15;
  uint64_t mixed = reinterpret_cast<uintptr_t>(&table) * kMix + static_cast<uint64_t>(rows);
  mixed = (mixed * kMix + static_cast<uint64_t>(width)) * kMix;
  Part& known = known_parts_[(mixed >> 32) % known_parts_.size()];
  if (known.table == &table && known.rows == rows && known.width == width) return known;
  known = {&table, rows, width, {on_node_, 1}, 0, -1};
  choose_cut(known);
  return known;
}

void CostModel::choose_cut(Part& part) const {
  const TableConfig& table = *part.table;
  part.seconds = part_of_node(table, part.rows, part.width, part.cut);
  // With a row-wise rule, shards with some of the columns have the same rows or none in common.
  const bool by_rows = part.width < table.dim && needs_row_norms(config_.train.sparse_optimizer);
  for (int columns = 2; !by_rows && columns <= on_node_ && columns <= part.width; ++columns) {
    if (on_node_ % columns != 0) continue;
    const Cut cut{on_node_ / columns, columns};
    const double seconds = part_of_node(table, part.rows, part.width, cut);
    if (seconds >= part.seconds) break;  // more columns are seldom cheaper again
    part.seconds = seconds;
    part.cut = cut;
  }
}

double CostModel::node_sum(double bytes) const {
  return bytes / speed_.local + kPassesOfSum * bytes / speed_.memory;
}

double CostModel::spared_by_sum(const TableConfig& table, double vectors, int64_t width, int shards,
                                int on_node) const {
  // A rank sends the sums of some of the columns in place of its partial vectors.
  const WireConfig& wire = config_.train.wire;
  const auto features = real(table.features.size());
  const double floats = real(config_.train.global_batch_size) * real(width);
  const double spared =
      floats * (vectors - features / shards) * real(size_of(wire.forward) + size_of(wire.backward));
  const double elsewhere = 1 - real(on_node) / world_;
  const double exchanged = 2 * 4 * floats * features * (shards - 1) / shards;
  return spared * elsewhere * on_node / speed_.network - node_sum(exchanged);
}

double CostModel::part_of_node(const TableConfig& table, int64_t all_rows, int64_t all_columns,
                               Cut cut) const {
  const int64_t rows = largest_part(all_rows, cut.rows);
  const int64_t width = largest_part(all_columns, cut.columns);
  const TableWork work = shard_work(table, rows, width);
  const double vectors = work.vectors / real(config_.train.global_batch_size);
  const double seconds = shard(table, rows, width, work);
  if (!node_sum_pays(table, cut.rows * vectors, cut.rows)) return seconds;
  return seconds - spared_by_sum(table, vectors, width, cut.rows, on_node_);
}

double CostModel::shard(const TableConfig& table, int64_t rows, int64_t width,
                        const TableWork& work) const {
  const WireConfig& wire = config_.train.wire;
  const auto batch = real(config_.train.global_batch_size);
  const auto value_bytes = real(size_of(wire.forward) + size_of(wire.backward));
  const double moved =
      batch * id_bytes_per_sample(table, {0, rows}) + work.vectors * real(width) * value_bytes;
  const double remote = real(world_ - 1) / world_;

  const double stored = held_bytes(config_, table, rows, width);
  return looked_up(work, width) / speed_.memory + exchange(moved * remote) +
         stored * speed_.storage + shard_seconds();
}

TableWork CostModel::replica_work(const TableConfig& table) const {
  const auto batch = real(config_.train.global_batch_size);
  const double local = batch / world_;
  TableWork work;
  work.lookups = local * hotness_of(table);
  work.max_lookups = local * max_hotness_of(table);
  work.unique = unique_rows(table, batch * hotness_of(table));
  work.vectors = local * real(table.features.size());
  work.row_bytes = row_lines(table, table.dim);
  work.state_bytes = state_lines(table.dim);
  work.vector_bytes = work.gradient_bytes = vector_bytes(table.dim, config_.compute_type());
  return work;
}

double CostModel::replica(const TableConfig& table) const {
  // Lookups are local, the exchanged gradients are summed, and every rank updates every touched
  // row.
  const TableWork work = replica_work(table);
  const double sent = travels_by_pairs(config_, table, world_)
                          ? (world_ - 1) * unique_rows(table, work.lookups) * pair_bytes(table)
                          : replicated_allreduce_bytes(table, world_);
  const double stored = held_bytes(config_, table, table.rows, table.dim);
  return (looked_up(work, table.dim) + 2 * sent) / speed_.memory + exchange(sent) +
         stored * speed_.storage + shard_seconds();
}

}  // namespace dlrm
