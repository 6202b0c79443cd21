#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/core/view.h"
#include "dlrm/plan/plan.h"

namespace dlrm {

/// Rows of one rank that are stored in a cached tier.
struct CachedRows {
  int64_t rows = 0;
  int64_t slot_bytes = 0;   ///< of a row and its optimizer state in fast memory
  double lookups = 0;       ///< in a step, at most
  int64_t moved_bytes = 0;  ///< of a record on its way to a GPU, or back
  bool numbers_rows =
      false;  ///< a GPU's slots have the numbers of their rows, to round bf16 values
  int table = -1;
  double own_bytes = 0;  ///< of fast memory, if memory.cached.tables has the table
};

/// Fast memory in which rows fit.
struct FastNeed {
  int64_t bytes = 0;
  int64_t table = -1;  ///< whose own size it is; -1: memory.cached.fast

  auto operator<=>(const FastNeed&) const = default;
};

/// The key that sets the size: memory.cached.fast, or that of the table in memory.cached.tables.
std::string key_of(const FastNeed& need, const std::vector<std::string>& table_names);

/// The cached slices of a rank, in the order of the plan. Shards of other columns of the same rows
/// belong to one slice.
std::vector<CachedRows> cached_rows(const std::vector<TableConfig>& tables, OptimizerRule optimizer,
                                    const CachedConfig& config, int64_t global_batch,
                                    const Plan& plan, int rank);
std::vector<CachedRows> cached_rows(const RunConfig& config, const Plan& plan, int rank);

/// How many rows of each slice the tiers hold.
struct CacheSizes {
  /// In fast memory, at least 1. Rows without a size of their own divide memory.cached.fast in
  /// proportion to their lookups. A share is one of all their bytes.
  std::vector<int64_t> slots;
  /// Fast memory has a slot for each row. They are resident, and none of them moves. Policy lru16
  /// has no such slices, because its sets may overflow.
  std::vector<bool> whole;
  /// The records that memory.cached.middle holds, 0 without one, and for whole slices.
  std::vector<int64_t> middle;
};
CacheSizes cache_sizes(const CachedConfig& config, View<const CachedRows> cached);

/// The plan with the shards of whole slices in the device's tier.
Plan plan_of_moving_rows(const std::vector<TableConfig>& tables, OptimizerRule optimizer,
                         const CachedConfig& config, int64_t global_batch, Plan plan);

/// Whether the config caches the table. Small tables stay resident.
bool is_cached(const RunConfig& config, const TableConfig& table);

/// The part of each cached table that is in fast memory, if one rank had all tables. By name.
std::map<std::string, double> cached_shares(const RunConfig& config);

/// Memory of a rank for a cached shard of `rows` x `width` of which so much is in fast memory:
/// `held` of its rows and state and, on a CPU, maps and what is in host memory of the slower tiers.
double cached_shard_bytes(const RunConfig& config, const TableConfig& table, int64_t rows,
                          int64_t width, double held);

/// An SSD store has a checksum for each part of so many bytes of its file.
inline constexpr int64_t kSummedBytes = 1024;
/// The most host memory that an SSD store takes for records of these rows: the place of each row,
/// checksums, and its buffers.
double ssd_index_bytes(double rows, double record_bytes);

/// Records of a slice that a checkpoint reads at a time: at most 16 MiB, unless a record is longer,
/// and a sixteenth of them, unless they are few.
int64_t records_at_a_time(int64_t rows, int64_t record_bytes);
/// The memory in which a checkpoint sorts the records of an SSD store: kSortedBytes for each
/// besides its own, and at most 64 MiB and a sixteenth of them, unless they are few.
int64_t sort_bytes(int64_t rows, int64_t record_bytes);
inline constexpr int64_t kSortedBytes = 16;

/// The most host memory in which a checkpoint sorts and reads the records of a slice. Slices follow
/// each other.
double checkpoint_bytes(int64_t rows, int64_t record_bytes, const CachedConfig& config);

/// Bytes of a block in which up to `records` records, `stride` bytes apart, move to a GPU or back:
/// their slots, and the records. It has at most 4 MiB, unless a record is longer.
int64_t moved_block_bytes(int64_t records, int64_t stride);
/// Records that such a block of `bytes` holds.
int64_t moved_block_records(int64_t bytes, int64_t stride);

/// Memory that a rank takes for its cached rows.
struct CacheBytes {
  double slots = 0;  ///< in fast memory. On a GPU also the blocks in which records move.
  double rest = 0;   ///< on the host: maps, and the slower tier's records or their index
};
CacheBytes cache_bytes(const RunConfig& config, const Plan& plan, int rank);

/// The least fast memory that gives `cached[which]` at least `slots` slots.
FastNeed bytes_for_slots(View<const CachedRows> cached, size_t which, int64_t slots);

}  // namespace dlrm
