#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "dlrm/plan/cache_size.h"
#include "dlrm/plan/plan.h"
#include "dlrm/plan/traffic.h"

#include "memory.h"
#include "numbers.h"
#include "text.h"

namespace dlrm {
namespace {

/// Slots are numbered with 31 bits.
constexpr int64_t kMostRows = (int64_t{1} << 31) - 1;

/// Tables whose tier is left open, those with the fewest lookups per byte first.
std::vector<std::string> open_tables(const RunConfig& config) {
  std::vector<std::pair<double, std::string>> open;
  for (const TableConfig& table : config.model.tables) {
    const double bytes = held_bytes(config, table, table.rows, table.dim);
    if (config.memory.tier_of(table.name) != MemoryTier::kAuto || bytes < kLeastCachedBytes)
      continue;
    open.emplace_back(hotness_of(table) / bytes, table.name);
  }
  std::ranges::stable_sort(open, {}, [](const auto& table) { return table.first; });
  std::vector<std::string> names;
  for (auto& [lookups, name] : open) names.push_back(std::move(name));
  return names;
}

/// Bytes of fast memory, as the config has them, which knows no size of 0.
std::string size_text(double bytes) {
  return fmt::format("{:.0f}KiB", std::max(1.0, std::ceil(bytes / 1024)));
}

/// The least fast memory that a window of batches can need on a rank, but for tables with a size of
/// their own.
double least_fast_bytes(const RunConfig& config, const Plan& plan) {
  double least = 0;
  for (int rank = 0; rank < plan.world; ++rank) {
    double bytes = 0;
    for (const CachedRows& rows : cached_rows(config, plan, rank)) {
      if (rows.own_bytes > 0) continue;
      const double slots =
          std::min(rows.lookups * (config.batches_ahead() + 1) + 1, real(rows.rows));
      bytes += slots * real(rows.slot_bytes);
    }
    least = std::max(least, bytes);
  }
  return least;
}

bool fits(const RunConfig& config, int world, const PlanOptions& options) {
  const Plan plan = make_plan(config, world, options);
  const bool numbered = std::ranges::all_of(plan.shards, [](const Shard& shard) {
    return shard.tier != MemoryTier::kCached || shard.rows.size() <= kMostRows;
  });
  return numbered && fits_memory(config, plan, options);
}

/// `config`, which fits, with as much of the rest of memory as fast memory as still fits.
RunConfig grown(const RunConfig& config, int world, const PlanOptions& options) {
  const double budget = device_budget(config, options);
  double room = budget;
  for (const RankMemory& rank : rank_memory(config, make_plan(config, world, options))) {
    room = std::min(room, budget - rank.total());
  }
  const double least = size_in_bytes(config.memory.cached.fast, 0);
  for (const double part : {0.9, 0.75, 0.5, 0.25}) {
    RunConfig larger = config;
    larger.memory.cached.fast = size_text(least + part * room);
    if (fits(larger, world, options)) return larger;
  }
  return config;
}

}  // namespace

RunConfig with_chosen_caches(const RunConfig& config, int world, const PlanOptions& options) {
  const RunConfig known = with_known_device(config, options);
  const bool unknown = device_budget(known, options) <= 0 ||
                       (has_two_memories(known, options) && host_budget(known, options) <= 0);
  if (unknown || fits_memory(known, make_plan(known, world, options), options)) return config;
  const std::vector<std::string> open = open_tables(known);
  const bool sizes = known.memory.cached.fast == CachedConfig().fast;  // that is left open too
  const auto with = [&](size_t count) {
    RunConfig cached = known;
    for (size_t i = 0; i < count; ++i) cached.memory.tables[open[i]] = MemoryTier::kCached;
    if (!sizes) return cached;
    const Plan plan = make_plan(cached, world, options);
    cached.memory.cached.fast = size_text(least_fast_bytes(cached, plan));
    return cached;
  };
  // Too many may not fit either, because each cached table has buffers and maps.
  size_t few = 0, enough = 1;
  while (enough <= open.size() && !fits(with(enough), world, options)) {
    few = enough;
    enough = few == open.size() ? few + 1 : std::min(few + (few + 1) / 2, open.size());
  }
  if (enough > open.size()) return config;
  while (enough - few > 1) {
    const size_t middle = few + (enough - few) / 2;
    (fits(with(middle), world, options) ? enough : few) = middle;
  }
  RunConfig chosen = config;
  chosen.memory = (sizes ? grown(with(enough), world, options) : with(enough)).memory;
  return chosen;
}

std::string describe_choice(const RunConfig& given, const RunConfig& chosen) {
  if (chosen.memory == given.memory) return "";
  std::vector<std::string> names;
  for (const TableConfig& table : given.model.tables) {
    if (chosen.memory.tier_of(table.name) == given.memory.tier_of(table.name)) continue;
    names.push_back(table.name);
  }
  const double fast = size_in_bytes(chosen.memory.cached.fast, 0);
  return fmt::format(
      "memory.tier: auto caches {} table{} that do{} not fit: {}; fast memory of {} for the rows "
      "of a rank, over {}\n",
      names.size(), plural(static_cast<int64_t>(names.size())), names.size() == 1 ? "es" : "",
      listed_names(names), fast > 0 ? gib_text(fast) + " GiB" : chosen.memory.cached.fast,
      chosen.memory.cached.backing == "ssd" ? "the SSD" : "the host's memory");
}

}  // namespace dlrm
