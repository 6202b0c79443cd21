#include "dlrm/plan/cache_size.h"

#include <algorithm>
#include <cmath>

#include "dlrm/plan/traffic.h"

#include "memory.h"
#include "numbers.h"
#include "shards.h"

namespace dlrm {
namespace {

bool has_own_size(const CachedRows& rows) { return rows.own_bytes > 0; }

/// Slots if there are `per_lookup` for each lookup of a step, or those of the rows' own size.
int64_t slots_at(const CachedRows& rows, double per_lookup) {
  const double wanted =
      has_own_size(rows) ? rows.own_bytes / real(rows.slot_bytes) : rows.lookups * per_lookup;
  const double slots = std::min(std::floor(wanted), real(rows.rows));
  return std::max<int64_t>(static_cast<int64_t>(slots), 1);
}

/// Arrays of a record that moves begin at multiples of 16 bytes.
constexpr int64_t kMovedAlign = 16;
constexpr int64_t kRowBytes = sizeof(int64_t);
int64_t aligned(int64_t bytes) { return (bytes + kMovedAlign - 1) / kMovedAlign * kMovedAlign; }

/// A record in pinned memory. It is like one that moves, without the number of its row.
double pinned_record_bytes(const CachedRows& rows) {
  return real(rows.moved_bytes - (rows.numbers_rows ? aligned(kRowBytes) : 0));
}

/// Of all records, but those with a size of their own.
double bytes_of(View<const CachedRows> cached) {
  double bytes = 0;
  for (const CachedRows& rows : cached) {
    if (!has_own_size(rows)) bytes += real(rows.rows * rows.slot_bytes);
  }
  return bytes;
}

/// Bytes of a SlotMap: the state of each row, and the row of each slot.
double map_bytes(int64_t rows, int64_t slots) { return 8 * real(rows) + 8 * real(slots); }

double bytes_at(View<const CachedRows> cached, double per_lookup) {
  double bytes = 0;
  for (const CachedRows& rows : cached) {
    if (has_own_size(rows)) continue;
    bytes += real(slots_at(rows, per_lookup) * rows.slot_bytes);
  }
  return bytes;
}

/// The slots of each if `bytes` are divided among rows without a size of their own, in proportion
/// to lookups, because a batch needs a slot for each of its rows. At least 1, and at most a slot
/// for each row.
std::vector<int64_t> slots_in(View<const CachedRows> cached, double bytes) {
  // The slots for each lookup, between a number that fits and one that does not.
  double fits = 0, most = 0;
  for (const CachedRows& rows : cached) {
    most = std::max(most, real(rows.rows) / std::max(rows.lookups, 1e-9) + 1);
  }
  if (bytes_at(cached, most) <= bytes) {
    fits = most;
  } else {
    for (int i = 0; i < 200 && fits < std::nextafter(most, fits); ++i) {
      const double middle = fits + (most - fits) / 2;
      (bytes_at(cached, middle) <= bytes ? fits : most) = middle;
    }
  }
  std::vector<int64_t> slots;
  for (const CachedRows& rows : cached) slots.push_back(slots_at(rows, fits));
  return slots;
}

/// Host memory of a slice besides its slots: maps, and the slower tier's records or their index.
double rest_bytes(const RunConfig& config, const CachedRows& slice, int64_t slots, int64_t middle) {
  const CachedConfig& of_tiers = config.memory.cached;
  const auto rows = real(slice.rows);
  const auto slot_bytes = real(slice.slot_bytes);
  // Policy static counts rows.
  const double count_row = of_tiers.policy == "static" ? 2.25 : 0;
  double bytes = map_bytes(slice.rows, slots) + rows * count_row;
  if (middle > 0) {
    bytes += real(middle) * slot_bytes + map_bytes(slice.rows, middle);
  }
  if (of_tiers.backing == "ssd") return bytes + ssd_index_bytes(rows, slot_bytes);
  return bytes + rows * (plans_for_gpu(config) ? pinned_record_bytes(slice) : slot_bytes);
}

double all_bytes(const RunConfig& config, const TableConfig& table) {
  return held_bytes(config, table, table.rows, table.dim);
}

double share_of(const std::string& size, double all) {
  return all > 0 ? std::min(size_in_bytes(size, all) / all, 1.0) : 1;
}

/// What so much memory is of all cached tables without a size of their own.
double shared_part(const RunConfig& config, const std::string& size) {
  double all = 0;
  for (const TableConfig& of : config.model.tables) {
    const bool is_shared = config.memory.tier_of(of.name) == MemoryTier::kCached &&
                           !config.memory.cached.tables.contains(of.name);
    if (is_shared) all += all_bytes(config, of);
  }
  return share_of(size, all);
}

/// Whether a CPU has memory for a cached table besides slots. On a GPU the rest is in the host's
/// memory, and a table that is in fast memory as a whole has none.
bool has_host_part(const RunConfig& config, double held) {
  return !plans_for_gpu(config) && (held < 1 || config.memory.cached.policy == "lru16");
}

/// The rows that work takes at a time, if each takes so many bytes.
int64_t rows_at_a_time(int64_t rows, int64_t row_bytes, int64_t most_bytes) {
  constexpr int64_t kParts = 16, kFew = 8192;
  return std::min(
      {rows, std::max(rows / kParts, kFew), std::max<int64_t>(most_bytes / row_bytes, 1)});
}

}  // namespace

std::string key_of(const FastNeed& need, const std::vector<std::string>& table_names) {
  if (need.table < 0) return "memory.cached.fast";
  return "memory.cached.tables." + table_names[static_cast<size_t>(need.table)];
}

std::vector<CachedRows> cached_rows(const std::vector<TableConfig>& tables, OptimizerRule optimizer,
                                    const CachedConfig& config, int64_t global_batch,
                                    const Plan& plan, int rank) {
  std::vector<CachedRows> cached;
  const auto [first, last] = shards_of_rank(plan, rank);
  for (size_t i = first; i < last; ++i) {
    const Shard& shard = plan.shards[i];
    if (shard.tier != MemoryTier::kCached) continue;
    const TableConfig& table = tables[static_cast<size_t>(shard.table)];
    if (!shares_ids(plan, i)) {
      const double share = real(shard.rows.size()) / real(table.rows);
      cached.push_back({shard.rows.size(), 0, real(global_batch) * hotness_of(table) * share});
    }
    const auto weights = static_cast<int64_t>(row_bytes(table, 1, shard.columns.size()));
    const auto states = static_cast<int64_t>(state_bytes(optimizer, 1, shard.columns.size()));
    CachedRows& slice = cached.back();
    slice.table = shard.table;
    slice.slot_bytes += weights + states;
    slice.numbers_rows = table.dtype == DType::kBFloat16;
    const int count = traits_of(optimizer).state_count();
    slice.moved_bytes += aligned(weights) + (count > 0 ? count * aligned(states / count) : 0);
  }
  for (CachedRows& slice : cached) {
    slice.moved_bytes += slice.numbers_rows ? aligned(kRowBytes) : 0;
    const auto own = config.tables.find(tables[static_cast<size_t>(slice.table)].name);
    if (own == config.tables.end()) continue;
    slice.own_bytes = size_in_bytes(own->second, real(slice.rows * slice.slot_bytes));
  }
  return cached;
}

std::vector<CachedRows> cached_rows(const RunConfig& config, const Plan& plan, int rank) {
  return cached_rows(config.model.tables, config.train.sparse_optimizer.type, config.memory.cached,
                     config.train.global_batch_size, plan, rank);
}

Plan plan_of_moving_rows(const std::vector<TableConfig>& tables, OptimizerRule optimizer,
                         const CachedConfig& config, int64_t global_batch, Plan plan) {
  std::vector<size_t> resident;
  for (int rank = 0; rank < plan.world; ++rank) {
    const std::vector<bool> whole =
        cache_sizes(config, cached_rows(tables, optimizer, config, global_batch, plan, rank)).whole;
    size_t slices = 0;
    const auto [first, last] = shards_of_rank(plan, rank);
    for (size_t i = first; i < last; ++i) {
      if (plan.shards[i].tier != MemoryTier::kCached) continue;
      if (!shares_ids(plan, i)) ++slices;
      if (whole[slices - 1]) resident.push_back(i);
    }
  }
  for (const size_t i : resident) plan.shards[i].tier = MemoryTier::kDevice;
  return plan;
}

CacheSizes cache_sizes(const CachedConfig& config, View<const CachedRows> cached) {
  const double all = bytes_of(cached);
  CacheSizes sizes;
  sizes.slots = slots_in(cached, std::min(size_in_bytes(config.fast, all), all));
  sizes.middle.resize(cached.size());
  std::vector<CachedRows> shared(cached.begin(), cached.end()), moving;
  for (size_t i = 0; i < shared.size(); ++i) {
    shared[i].own_bytes = 0;
    sizes.whole.push_back(config.policy != "lru16" && sizes.slots[i] == shared[i].rows);
    if (!sizes.whole[i]) moving.push_back(shared[i]);
  }
  if (config.middle.empty()) return sizes;
  const double middle = size_in_bytes(config.middle, bytes_of(shared));
  const std::vector<int64_t> slots = slots_in(moving, std::min(middle, bytes_of(moving)));
  for (size_t i = 0, m = 0; i < shared.size(); ++i) {
    if (!sizes.whole[i]) sizes.middle[i] = slots[m++];
  }
  return sizes;
}

bool is_cached(const RunConfig& config, const TableConfig& table) {
  return config.memory.tier_of(table.name) == MemoryTier::kCached &&
         all_bytes(config, table) >= kLeastCachedBytes;
}

std::map<std::string, double> cached_shares(const RunConfig& config) {
  const CachedConfig& cached = config.memory.cached;
  const double shared = shared_part(config, cached.fast);
  std::map<std::string, double> shares;
  for (const TableConfig& table : config.model.tables) {
    if (!is_cached(config, table)) continue;
    const auto own = cached.tables.find(table.name);
    shares[table.name] =
        own == cached.tables.end() ? shared : share_of(own->second, all_bytes(config, table));
  }
  return shares;
}

double cached_shard_bytes(const RunConfig& config, const TableConfig& table, int64_t rows,
                          int64_t width, double held) {
  const double all = held_bytes(config, table, rows, width);
  if (rows == 0 || !has_host_part(config, held)) return held * all;
  const CachedConfig& cached = config.memory.cached;
  const auto share_of_rows = [&](double share) {
    return static_cast<int64_t>(std::ceil(share * real(rows)));
  };
  CachedRows slice;
  slice.rows = rows;
  slice.slot_bytes = static_cast<int64_t>(all / real(rows));
  const double middle = cached.middle.empty() ? 0 : shared_part(config, cached.middle);
  return held * all + rest_bytes(config, slice, share_of_rows(held), share_of_rows(middle));
}

double ssd_index_bytes(double rows, double record_bytes) {
  // The file is at most 1.5 times the records and an eighth for packing.
  const double checksums = rows * record_bytes * 1.5 * 9 / 8 / kSummedBytes * sizeof(uint32_t);
  constexpr double kBuffers = 7.5 * 0x1p20;
  return 4 * rows + checksums + kBuffers;
}

int64_t records_at_a_time(int64_t rows, int64_t record_bytes) {
  return rows_at_a_time(rows, record_bytes, int64_t{16} << 20);
}

int64_t sort_bytes(int64_t rows, int64_t record_bytes) {
  const int64_t bytes = record_bytes + kSortedBytes;
  return bytes * rows_at_a_time(rows, bytes, int64_t{64} << 20);
}

double checkpoint_bytes(int64_t rows, int64_t record_bytes, const CachedConfig& config) {
  // Of the rows that are read: numbers, slots, and whether they were written.
  constexpr int64_t kListed = 3 * sizeof(int64_t) + 1;
  // All of these rows may be in slots at one time, and none at another. So there is a buffer for
  // the records of slots, and one for the others. A middle tier has one of its own.
  const int64_t copies = config.middle.empty() ? 2 : 3;
  const int64_t read = records_at_a_time(rows, record_bytes) * (copies * record_bytes + kListed);
  return real(std::max(read, config.backing == "ssd" ? sort_bytes(rows, record_bytes) : 0));
}

int64_t moved_block_records(int64_t bytes, int64_t stride) {
  constexpr int64_t kSlot = sizeof(int32_t);
  return std::max<int64_t>((bytes - kMovedAlign) / (stride + kSlot), 1);
}

int64_t moved_block_bytes(int64_t records, int64_t stride) {
  constexpr int64_t kMost = int64_t{4} << 20;
  constexpr int64_t kSlot = sizeof(int32_t);
  const int64_t most = std::min(records, moved_block_records(kMost, stride));
  return most * (stride + kSlot) + kMovedAlign;
}

CacheBytes cache_bytes(const RunConfig& config, const Plan& plan, int rank) {
  const CachedConfig& of_tiers = config.memory.cached;
  const std::vector<CachedRows> cached = cached_rows(config, plan, rank);
  if (cached.empty()) return {};
  const auto [slots, whole, middle] = cache_sizes(of_tiers, cached);
  const bool on_gpu = plans_for_gpu(config);
  CacheBytes bytes;
  double block = 0, checkpoint = 0;
  for (size_t i = 0; i < cached.size(); ++i) {
    const auto slot_bytes = real(cached[i].slot_bytes);
    if (whole[i]) {
      bytes.slots += real(cached[i].rows) * slot_bytes;
      continue;
    }
    const auto number = real(on_gpu && cached[i].numbers_rows ? sizeof(int64_t) : 0);
    bytes.slots += real(slots[i]) * (slot_bytes + number);
    block = std::max(block, real(moved_block_bytes(slots[i], cached[i].moved_bytes)));
    checkpoint =
        std::max(checkpoint, checkpoint_bytes(cached[i].rows, cached[i].slot_bytes, of_tiers));
    bytes.rest += rest_bytes(config, cached[i], slots[i], middle[i]);
  }
  bytes.rest += checkpoint;
  if (!on_gpu) return bytes;
  constexpr double kBlocks = 2;  // on the device, and as many in pinned memory
  bytes.slots += kBlocks * block;
  bytes.rest += kBlocks * block;
  return bytes;
}

FastNeed bytes_for_slots(View<const CachedRows> cached, size_t which, int64_t slots) {
  const CachedRows& rows = cached[which];
  if (has_own_size(rows)) return {slots * rows.slot_bytes, rows.table};
  // A little more than the quotient, so that floor() does not lose a slot to rounding.
  const double per_lookup = real(slots) / std::max(rows.lookups, 1e-9) * (1 + 1e-12);
  return {static_cast<int64_t>(std::ceil(bytes_at(cached, per_lookup)))};
}

}  // namespace dlrm
