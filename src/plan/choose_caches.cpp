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
  struct Open {
    double bytes, lookups;
    std::string name;
  };
  std::vector<Open> open;
  for (const TableConfig& table : config.model.tables) {
    if (config.memory.tier_of(table.name) != MemoryTier::kAuto) continue;
    const double bytes = held_bytes(config, table, table.rows, table.dim);
    if (bytes >= kLeastCachedBytes) open.push_back({bytes, hotness_of(table), table.name});
  }
  std::stable_sort(open.begin(), open.end(), [](const Open& a, const Open& b) {
    return a.lookups * b.bytes < b.lookups * a.bytes;
  });
  std::vector<std::string> names;
  for (Open& table : open) names.push_back(std::move(table.name));
  return names;
}

/// Bytes of fast memory, as the config has them, which knows no size of 0.
std::string size_text(double bytes) {
  return fmt::format("{:.0f}KiB", std::max(1.0, std::ceil(bytes / 1024)));
}

std::vector<CachedRows> cached_of(const RunConfig& config, const Plan& plan, int rank) {
  return cached_rows(config.model.tables, config.train.sparse_optimizer.type, config.memory.cached,
                     config.train.global_batch_size, plan, rank);
}

/// The choice of what is cached, and how much of it is in fast memory.
class Choice {
 public:
  Choice(const RunConfig& config, int world, const PlanOptions& options)
      : config_(config),
        world_(world),
        options_(options),
        open_(open_tables(config)),
        sizes_(config.memory.cached.fast == CachedConfig().fast) {}

  size_t open() const { return open_.size(); }

  /// The config if the first `count` open tables are cached, with the least fast memory that a
  /// window of batches can need, unless the config sets one.
  RunConfig with(size_t count) const {
    RunConfig config = config_;
    for (size_t i = 0; i < count; ++i) config.memory.tables[open_[i]] = MemoryTier::kCached;
    if (!sizes_) return config;
    const Plan plan = make_plan(config, world_, options_);
    double least = 0;
    for (int rank = 0; rank < world_; ++rank) {
      double bytes = 0;
      for (const CachedRows& rows : cached_of(config, plan, rank)) {
        if (rows.own_bytes > 0) continue;
        const double slots =
            std::min(rows.lookups * (config.batches_ahead() + 1) + 1, real(rows.rows));
        bytes += slots * real(rows.slot_bytes);
      }
      least = std::max(least, bytes);
    }
    config.memory.cached.fast = size_text(least);
    return config;
  }

  bool fits(const RunConfig& config) const {
    const Plan plan = make_plan(config, world_, options_);
    const bool numbered =
        std::all_of(plan.shards.begin(), plan.shards.end(), [](const Shard& shard) {
          return shard.tier != MemoryTier::kCached || shard.rows.size() <= kMostRows;
        });
    return numbered && fits_memory(config, plan, options_);
  }

  /// `config`, which fits, with as much of the rest of memory as fast memory as still fits.
  RunConfig grown(const RunConfig& config) const {
    if (!sizes_) return config;
    double room = device_budget(config, options_);
    for (const RankMemory& rank : rank_memory(config, make_plan(config, world_, options_))) {
      room = std::min(room, device_budget(config, options_) - rank.total());
    }
    const double least = size_in_bytes(config.memory.cached.fast, 0);
    for (const double part : {0.9, 0.75, 0.5, 0.25}) {
      RunConfig larger = config;
      larger.memory.cached.fast = size_text(least + part * room);
      if (fits(larger)) return larger;
    }
    return config;
  }

 private:
  const RunConfig& config_;
  int world_;
  const PlanOptions& options_;
  std::vector<std::string> open_;
  bool sizes_;  ///< memory.cached.fast is left open too
};

}  // namespace

RunConfig with_chosen_caches(const RunConfig& config, int world, const PlanOptions& options) {
  const RunConfig known = with_known_device(config, options);
  const bool unknown = device_budget(known, options) <= 0 ||
                       (has_two_memories(known, options) && host_budget(known, options) <= 0);
  if (unknown || fits_memory(known, make_plan(known, world, options), options)) return config;
  const Choice choice(known, world, options);
  // Too many may not fit either, because each cached table has buffers and maps.
  size_t fails = 0, fits = 1;
  while (fits <= choice.open() && !choice.fits(choice.with(fits))) {
    fails = fits;
    fits = fits == choice.open() ? fits + 1 : std::min(fits + (fits + 1) / 2, choice.open());
  }
  if (fits > choice.open()) return config;
  while (fits - fails > 1) {
    const size_t middle = fails + (fits - fails) / 2;
    (choice.fits(choice.with(middle)) ? fits : fails) = middle;
  }
  RunConfig chosen = config;
  chosen.memory = choice.grown(choice.with(fits)).memory;
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
