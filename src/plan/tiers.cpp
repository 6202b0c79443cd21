#include <algorithm>
#include <utility>

#include "dlrm/plan/cache_size.h"
#include "dlrm/plan/plan.h"
#include "dlrm/plan/traffic.h"

#include "memory.h"
#include "numbers.h"
#include "shards.h"

namespace dlrm {
namespace {

MemoryTier asked_tier(const RunConfig& config, int table) {
  return config.memory.tier_of(table_of(config, table).name);
}

/// The tier of a resident table that results from the config's `asked` and a tier chosen before.
MemoryTier resolved(MemoryTier asked, MemoryTier so_far) {
  if (asked == MemoryTier::kAuto) return so_far;
  return asked == MemoryTier::kHost ? MemoryTier::kHost : MemoryTier::kDevice;
}

/// Makes a shard cached if the config asks for it, or if a plan file does and the config leaves the
/// tier to it. Returns false for resident shards.
bool keep_cached(const RunConfig& config, Shard& shard) {
  const bool from_file =
      asked_tier(config, shard.table) == MemoryTier::kAuto && shard.tier == MemoryTier::kCached;
  if (!from_file && !is_cached(config, table_of(config, shard.table))) return false;
  shard.tier = MemoryTier::kCached;
  return true;
}

void follow_config(const RunConfig& config, Plan& plan) {
  for (Shard& shard : plan.shards) {
    if (!keep_cached(config, shard)) {
      shard.tier = resolved(asked_tier(config, shard.table), shard.tier);
    }
  }
  std::vector<int> on_host;
  for (const int t : plan.data_parallel) {
    const bool so_far = is_listed(plan.host_replicas, t);
    const MemoryTier tier =
        resolved(asked_tier(config, t), so_far ? MemoryTier::kHost : MemoryTier::kDevice);
    if (tier == MemoryTier::kHost) on_host.push_back(t);
  }
  plan.host_replicas = std::move(on_host);
}

/// A shard that may be placed in either memory.
struct Candidate {
  Shard* shard;
  double bytes;        ///< rows and state
  double lookups;      ///< of a step
  bool stays = false;  ///< on the device
};

std::vector<Candidate> candidates_of(const RunConfig& config, int rank, Plan& plan) {
  std::vector<Candidate> candidates;
  const auto [first, last] = shards_of_rank(plan, rank);
  for (size_t i = first; i < last; ++i) {
    Shard& shard = plan.shards[i];
    if (shard.tier != MemoryTier::kDevice) continue;
    if (asked_tier(config, shard.table) != MemoryTier::kAuto) continue;
    const TableConfig& table = table_of(config, shard.table);
    const int64_t rows = shard.rows.size(), width = shard.columns.size();
    const double bytes = held_bytes(config, table, rows, width);
    const double lookups =
        real(config.train.global_batch_size) * hotness_of(table) * real(rows) / real(table.rows);
    candidates.push_back({&shard, bytes, lookups});
  }
  return candidates;
}

/// Keeps candidates on the device in this order as long as there is room. Returns the bytes of the
/// others.
double fill(std::vector<Candidate>& candidates, double room) {
  double gone = 0;
  for (Candidate& candidate : candidates) {
    candidate.stays = candidate.bytes <= room;
    if (candidate.stays) room -= candidate.bytes;
    if (!candidate.stays) gone += candidate.bytes;
  }
  return gone;
}

/// Moves shards that do not fit on the device of `rank` to the host's memory. `device_room` is the
/// room for the candidates, `host_room` (0: unknown) the room for those that are moved.
void spill(std::vector<Candidate>& candidates, double device_room, double host_room) {
  // Stable, so that of equal shards the first in the plan stay, on every rank and in every run.
  std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    return a.lookups * b.bytes > b.lookups * a.bytes;
  });
  std::vector<Candidate> by_lookups = candidates;
  const double gone = fill(by_lookups, device_room);
  if (host_room > 0 && gone > host_room) {
    // The host is too small for the others. The largest shards fill the device better.
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
    if (fill(candidates, device_room) < gone) by_lookups.swap(candidates);
  }
  for (const Candidate& candidate : by_lookups) {
    if (!candidate.stays) candidate.shard->tier = MemoryTier::kHost;
  }
}

/// The least of what is `there` (0: unknown) and of a size.
double limited(double there, const std::string& size) {
  if (size.empty()) return there;
  const double limit = size_in_bytes(size, there);
  return there > 0 ? std::min(there, limit) : limit;
}

}  // namespace

bool has_two_memories(const RunConfig& config, const PlanOptions& options) {
  return config.device == DeviceKind::kCuda || (config.device == DeviceKind::kAuto && options.gpu);
}

RunConfig with_known_device(RunConfig config, const PlanOptions& options) {
  if (config.device == DeviceKind::kAuto) {
    config.device = options.gpu ? DeviceKind::kCuda : DeviceKind::kCpu;
  }
  return config;
}

double device_budget(const RunConfig& config, const PlanOptions& options) {
  const bool two = has_two_memories(config, options);
  return limited(options.rank_memory_bytes, two ? config.memory.device : config.memory.host);
}

double host_budget(const RunConfig& config, const PlanOptions& options) {
  return limited(options.host_memory_bytes, config.memory.host);
}

void choose_tiers(const RunConfig& given, const PlanOptions& options, Plan& plan) {
  const RunConfig config = with_known_device(given, options);
  if (!has_two_memories(config, options)) {
    for (Shard& shard : plan.shards) {
      if (!keep_cached(config, shard)) shard.tier = MemoryTier::kDevice;
    }
    plan.host_replicas.clear();
    return;
  }
  follow_config(config, plan);
  const double budget = device_budget(config, options);
  if (budget <= 0) return;
  const std::vector<RankMemory> memory = rank_memory(config, plan);
  for (int rank = 0; rank < plan.world; ++rank) {
    const RankMemory& own = memory[static_cast<size_t>(rank)];
    if (own.total() <= budget) continue;
    std::vector<Candidate> candidates = candidates_of(config, rank, plan);
    double room = budget - own.total();
    for (const Candidate& candidate : candidates) room += candidate.bytes;
    const double host = host_budget(config, options);
    spill(candidates, room, host > 0 ? std::max(host - own.host_total(), 1.0) : 0);
  }
}

}  // namespace dlrm
