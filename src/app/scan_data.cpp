#include "scan_data.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "dlrm/core/error.h"
#include "dlrm/data/batch_source.h"
#include "dlrm/embedding/cache_forecast.h"
#include "dlrm/embedding/ssd_rate.h"
#include "dlrm/plan/cache_size.h"

namespace dlrm {
namespace {

int64_t batches_of(const RunConfig& config, const BatchPlan& plan) {
  if (config.train.steps >= 0) return config.train.steps;
  return config.train.epochs * plan.batches_per_epoch();
}

std::string rank_table(const RunConfig& config, const CacheForecast& forecast, int rank) {
  std::string text = fmt::format("rank {}\n{:>16}{:>14}{:>12}{:>16}{:>14}{:>14}\n", rank, "table",
                                 "rows", "slots", "largest batch", "misses/step", "writes/step");
  const auto batches = static_cast<double>(forecast.batches());
  for (const CacheForecast::Slice& slice : forecast.slices()) {
    text +=
        fmt::format("{:>16}{:>14}{:>12}{:>16}{:>14.1f}{:>14.1f}{}\n",
                    config.model.tables[static_cast<size_t>(slice.table)].name, slice.rows.size(),
                    slice.slots, slice.largest_batch, static_cast<double>(slice.misses) / batches,
                    static_cast<double>(slice.writes) / batches,
                    slice.largest_batch > slice.slots ? "  does not fit" : "");
  }
  return text;
}

/// Whether the SSD keeps up with the rank that fetches most.
std::string feasibility(const RunConfig& config, const Plan& plan, double misses, int rank) {
  const std::vector<CachedRows> cached =
      cached_rows(config.model.tables, config.train.sparse_optimizer.type,
                  config.train.global_batch_size, plan, rank);
  const auto largest = std::max_element(cached.begin(), cached.end(), [](auto& a, auto& b) {
    return a.rows * a.slot_bytes < b.rows * b.slot_bytes;
  });
  const CachedConfig& to = config.memory.cached;
  std::string text = fmt::format("a step fetches {:.1f} rows of about {} bytes on rank {}", misses,
                                 largest->slot_bytes, rank);
  if (to.backing != "ssd") return text + "\n";
  const std::string directory =
      !to.directory.empty() ? to.directory : std::filesystem::current_path().string();
  constexpr int64_t kBytes = int64_t{512} << 20;
  const SsdRate rate = measure_ssd(directory, largest->slot_bytes, kBytes, 2);
  return text + fmt::format(
                    "; the SSD of {} reads {:.0f} a second: at most {:.1f} steps/s, {:.0f} "
                    "samples/s\n",
                    directory, rate.rows_read, rate.rows_read / std::max(misses, 1e-9),
                    rate.rows_read / std::max(misses, 1e-9) *
                        static_cast<double>(config.train.global_batch_size));
}

}  // namespace

std::string scan_data(const RunConfig& config, const Plan& plan, int64_t most) {
  std::vector<CacheForecast> forecasts;
  bool caches = false;
  for (int rank = 0; rank < plan.world; ++rank) {
    forecasts.emplace_back(config, plan, rank, config.batches_ahead() + 1);
    caches |= !forecasts.back().slices().empty();
  }
  if (!caches) {
    throw usage_error(
        "--scan-data: no table is cached (memory.tier: cached; tables under 1 MiB "
        "stay resident)");
  }
  const auto source = make_batch_source(config, Split::kTrain, 0, 1);
  int64_t count = batches_of(config, source->plan());
  if (most > 0) count = std::min(count, most);
  Prefetcher batches(*source, 0, count, config.data.workers, config.data.prefetch);
  while (const Batch* batch = batches.next()) {
    for (CacheForecast& forecast : forecasts) forecast.add(batch->ids, batch->offsets);
  }
  std::string text =
      fmt::format("\n{} batches of {} samples:\n", count, config.train.global_batch_size);
  int64_t least = 0;
  double misses = 0;
  int busiest = 0;
  for (int rank = 0; rank < plan.world; ++rank) {
    const CacheForecast& forecast = forecasts[static_cast<size_t>(rank)];
    if (forecast.slices().empty()) continue;
    text += rank_table(config, forecast, rank);
    least = std::max(least, forecast.least_fast_bytes());
    double here = 0;
    for (const auto& slice : forecast.slices()) {
      here += static_cast<double>(slice.misses) / static_cast<double>(count);
    }
    if (here > misses) busiest = rank;
    misses = std::max(misses, here);
  }
  text += fmt::format("the least fast tier for these batches: memory.cached.fast: {}KiB\n",
                      (least + 1023) / 1024);
  return text + feasibility(config, plan, misses, busiest);
}

}  // namespace dlrm
