#include "scan_data.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "dlrm/core/error.h"
#include "dlrm/data/batch_source.h"
#include "dlrm/embedding/cache_forecast.h"
#include "dlrm/embedding/record_rate.h"
#include "dlrm/plan/cache_size.h"

namespace dlrm {
namespace {

/// The caches of all ranks after a number of batches.
struct Scan {
  std::vector<CacheForecast> ranks;
  int64_t batches = 0;
  int64_t counted = 0;  ///< the last of these, whose misses were counted
};

int64_t batches_of(const RunConfig& config, const BatchPlan& plan) {
  if (config.train.steps >= 0) return config.train.steps;
  return config.train.epochs * plan.batches_per_epoch();
}

/// Misses are counted in the second half, since the caches are empty at first.
void read_batches(const RunConfig& config, int64_t most, Scan& scan) {
  const auto source = make_batch_source(config, Split::kTrain, 0, 1);
  scan.batches = batches_of(config, source->plan());
  if (most > 0) scan.batches = std::min(scan.batches, most);
  scan.counted = scan.batches - scan.batches / 2;
  Prefetcher batches(*source, 0, scan.batches, config.data.workers, config.data.prefetch);
  int64_t done = 0;
  while (const Batch* batch = batches.next()) {
    const BatchRows rows(config.model.tables, batch->ids, batch->offsets);
    for (CacheForecast& rank : scan.ranks) {
      if (done == scan.batches - scan.counted) rank.reset_counts();
      rank.add(rows);
    }
    ++done;
  }
}

Scan empty_caches(const RunConfig& config, const Plan& plan) {
  Scan scan;
  const bool caches = std::any_of(plan.shards.begin(), plan.shards.end(), [](const Shard& shard) {
    return shard.tier == MemoryTier::kCached;
  });
  if (!caches) return scan;
  for (int rank = 0; rank < plan.world; ++rank) {
    scan.ranks.emplace_back(config, plan, rank);
  }
  return scan;
}

double ids_of_batch(const RunConfig& config) {
  return config.model.lookups_per_sample() * static_cast<double>(config.train.global_batch_size);
}

/// Memory of a scan, by its largest parts: the ids of batches read ahead, and the caches' maps. 0
/// if no table is cached.
double scan_bytes(const RunConfig& config, const Plan& plan) {
  // Of a SlotMap, and a bit for the slower tier.
  constexpr double kRowBytes = 8 + 1.0 / 8, kSlotBytes = 8;
  double maps = 0;
  for (int rank = 0; rank < plan.world; ++rank) {
    const std::vector<CachedRows> cached = cached_rows(config, plan, rank);
    const std::vector<int64_t> slots = cache_sizes(config.memory.cached, cached).slots;
    for (size_t i = 0; i < cached.size(); ++i) {
      maps += kRowBytes * static_cast<double>(cached[i].rows) +
              kSlotBytes * static_cast<double>(slots[i]);
    }
  }
  return maps > 0 ? maps + 8 * ids_of_batch(config) * (config.data.prefetch + 1) : 0;
}

double misses_per_step(const Scan& scan, int rank) {
  int64_t misses = 0;
  for (const auto& slice : scan.ranks[static_cast<size_t>(rank)].slices()) misses += slice.misses;
  return static_cast<double>(misses) / static_cast<double>(std::max<int64_t>(scan.counted, 1));
}

std::string rank_table(const RunConfig& config, const Scan& scan, int rank) {
  std::string text = fmt::format("rank {}\n{:>16}{:>14}{:>12}{:>16}{:>14}{:>14}\n", rank, "table",
                                 "rows", "slots", "largest batch", "misses/step", "writes/step");
  const auto steps = static_cast<double>(std::max<int64_t>(scan.counted, 1));
  for (const CacheForecast::Slice& slice : scan.ranks[static_cast<size_t>(rank)].slices()) {
    text +=
        fmt::format("{:>16}{:>14}{:>12}{:>16}{:>14.1f}{:>14.1f}{}\n",
                    config.model.tables[static_cast<size_t>(slice.table)].name, slice.rows.size(),
                    slice.slots, slice.largest_batch, static_cast<double>(slice.misses) / steps,
                    static_cast<double>(slice.writes) / steps,
                    slice.largest_batch > slice.slots ? "  does not fit" : "");
  }
  return text;
}

/// The nearest folder above the files of an SSD that exists.
std::string existing_folder(const RunConfig& config) {
  std::filesystem::path folder = config.memory.cached.directory.empty()
                                     ? config.output.directory
                                     : config.memory.cached.directory;
  folder = std::filesystem::absolute(folder);
  std::error_code error;
  while (!std::filesystem::is_directory(folder, error) && folder.has_parent_path() &&
         folder != folder.parent_path()) {
    folder = folder.parent_path();
  }
  return folder.string();
}

/// Whether the slower tier keeps up with the rank that fetches most.
std::string feasibility_line(const RunConfig& config, const Plan& plan, const Scan& scan) {
  constexpr int64_t kFileBytes = int64_t{256} << 20;
  constexpr double kSeconds = 0.2;
  int busiest = -1;  // of the ranks with cached rows
  for (int rank = 0; rank < plan.world; ++rank) {
    if (scan.ranks[static_cast<size_t>(rank)].slices().empty()) continue;
    const bool first = busiest < 0;
    if (first || misses_per_step(scan, rank) > misses_per_step(scan, busiest)) busiest = rank;
  }
  const double misses = misses_per_step(scan, busiest);
  int64_t record_bytes = 0, most = 0;
  for (const CachedRows& rows : cached_rows(config, plan, busiest)) {
    if (rows.rows * rows.slot_bytes <= most) continue;
    most = rows.rows * rows.slot_bytes;
    record_bytes = rows.slot_bytes;
  }
  std::string text = fmt::format(
      "cached tables: in steps {} to {}, rank {} fetches {:.1f} rows a step, {:.2f} MiB",
      scan.batches - scan.counted + 1, scan.batches, busiest, misses,
      misses * static_cast<double>(record_bytes) / 0x1p20);
  if (misses == 0) return text + "\n";
  const bool on_ssd = config.memory.cached.backing == "ssd";
  if (!on_ssd && config.device == DeviceKind::kCuda) {
    return text + "; the GPU reads them from the host's memory\n";
  }
  const std::string folder = on_ssd ? existing_folder(config) : "";
  const RecordRate rate = on_ssd ? measure_ssd(folder, record_bytes, kFileBytes, kSeconds)
                                 : measure_memory(record_bytes, kFileBytes, kSeconds);
  const double steps = rate.rows_read / misses;
  return text + fmt::format("; {} reads {:.0f} rows/s: at most {:.4g} steps/s, {:.4g} samples/s\n",
                            on_ssd ? "the SSD of " + folder : "host memory", rate.rows_read, steps,
                            steps * static_cast<double>(config.train.global_batch_size));
}

}  // namespace

std::string scan_data(const RunConfig& config, const Plan& plan, int64_t most) {
  Scan scan = empty_caches(config, plan);
  if (scan.ranks.empty()) {
    throw usage_error(
        "--scan-data: no table is cached (memory.tier: cached; tables under 1 MiB stay resident)");
  }
  read_batches(config, most, scan);
  std::vector<std::string> names;
  for (const TableConfig& table : config.model.tables) names.push_back(table.name);
  std::string text = fmt::format("\n{} batches of {} samples; misses and writes of the last {}:\n",
                                 scan.batches, config.train.global_batch_size, scan.counted);
  std::map<std::string, int64_t> least;
  for (int rank = 0; rank < plan.world; ++rank) {
    const CacheForecast& forecast = scan.ranks[static_cast<size_t>(rank)];
    if (forecast.slices().empty()) continue;
    text += rank_table(config, scan, rank);
    for (const FastNeed& need : forecast.least_fast_memory()) {
      int64_t& bytes = least[key_of(need, names)];
      bytes = std::max(bytes, need.bytes);
    }
  }
  for (const auto& [key, bytes] : least) {
    text += fmt::format("the least fast tier for these batches: {}: {}KiB\n", key,
                        (bytes + 1023) / 1024);
  }
  return text + feasibility_line(config, plan, scan);
}

std::string feasibility(const RunConfig& config, const Plan& plan) {
  constexpr int64_t kBatches = 100;
  constexpr double kMostBytes = 0x1p31;
  constexpr double kMostIds = 0x1p28;
  constexpr int64_t kMostTurns = kBatches * 1024;  // batches in the caches of a rank
  const double bytes = scan_bytes(config, plan);
  if (bytes > kMostBytes) {
    return fmt::format(
        "cached tables: how many rows a step fetches is unknown: counting takes {:.1f} GiB of "
        "memory, and dlrm-plan --scan-data does it\n",
        bytes / 0x1p30);
  }
  Scan scan = empty_caches(config, plan);
  if (scan.ranks.empty()) return "";
  const auto most = std::min(static_cast<int64_t>(kMostIds / ids_of_batch(config)),
                             kMostTurns / static_cast<int64_t>(plan.world));
  try {
    read_batches(config, std::clamp<int64_t>(most, 2, kBatches), scan);
    return feasibility_line(config, plan, scan);
  } catch (const Error& error) {
    return fmt::format("cached tables: how many rows a step fetches is unknown: {}\n",
                       error.what());
  }
}

}  // namespace dlrm
