#include "dlrm/plan/batch_size.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "dlrm/core/error.h"
#include "dlrm/core/shown_bytes.h"

#include "numbers.h"

namespace dlrm {
namespace {

/// The largest power of two that the config's key allows, as an exponent.
constexpr int kMostExponent = 30;
static_assert((int64_t{1} << kMostExponent) <= std::numeric_limits<int32_t>::max());

/// Cells of tables that a plan has in slower memory than a rank's device, over all ranks.
double slow_cells(const Plan& plan, const ModelConfig& model) {
  double cells = 0;
  for (const Shard& shard : plan.shards) {
    if (shard.tier == MemoryTier::kDevice) continue;
    cells += real(shard.rows.size()) * real(shard.columns.size());
  }
  for (const int t : plan.host_replicas) {
    const TableConfig& table = model.tables[static_cast<size_t>(t)];
    cells += real(plan.world) * real(table.rows * table.dim);
  }
  return cells;
}

/// The plan of a run with batches of one size.
struct Trial {
  bool fits = false;
  double needed = 0;       ///< bytes of the fullest rank's device
  double host_needed = 0;  ///< bytes of the fullest host memory of a rank, if it is apart
  double slow_cells = 0;
};

Trial try_batch(RunConfig config, int64_t size, int world, const PlanOptions& options) {
  config.train.global_batch_size = size;
  const RunConfig cached = with_known_device(with_chosen_caches(config, world, options), options);
  const Plan plan = make_plan(cached, world, options);
  const std::vector<RankMemory> memory = rank_memory(cached, plan);
  return {fits_memory(cached, plan, options),
          std::ranges::max(memory, {}, &RankMemory::total).total(),
          std::ranges::max(memory, {}, &RankMemory::host_total).host_total(),
          slow_cells(plan, config.model)};
}

std::string shown(double bytes) { return shown_bytes(static_cast<size_t>(bytes)); }

/// The largest exponent in [0, most] with which a plan fits, or -1.
int largest_exponent(const RunConfig& config, int world, const PlanOptions& options, int most) {
  const Trial smallest = try_batch(config, 1, world, options);
  if (!smallest.fits) return -1;
  int low = 0, high = most + 1;
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    const Trial trial = try_batch(config, int64_t{1} << middle, world, options);
    const bool good = trial.fits && trial.slow_cells <= smallest.slow_cells;
    (good ? low : high) = middle;
  }
  return low;
}

}  // namespace

RunConfig with_chosen_batch(const RunConfig& config, int world, const PlanOptions& options,
                            int64_t samples, std::string& said) {
  said.clear();
  if (config.train.global_batch_size > 0) return config;
  const double memory = device_budget(with_known_device(config, options), options);
  if (memory == 0) {
    throw usage_error(
        "train.global_batch_size: auto needs the memory of a rank: give --device-memory, or a "
        "number");
  }
  int most = kMostExponent;
  while (samples > 0 && most > 0 && (int64_t{1} << most) > samples) --most;
  const int exponent = largest_exponent(config, world, options, most);
  const auto needed = [&](int64_t batch) {
    const Trial trial = try_batch(config, batch, world, options);
    if (trial.fits) return fmt::format("{} would move tables to slower memory", batch);
    if (trial.needed <= memory) {
      return fmt::format("a rank needs {} of host memory for {}, and may use {}",
                         shown(trial.host_needed), batch, shown(host_budget(config, options)));
    }
    return fmt::format("a rank needs {} for {}, and may use {}", shown(trial.needed), batch,
                       shown(memory));
  };
  if (exponent < 0) throw usage_error("train.global_batch_size: auto: {}", needed(1));
  RunConfig chosen = config;
  int64_t& size = chosen.train.global_batch_size;
  size = int64_t{1} << exponent;
  const std::string reason = exponent < most         ? needed(2 * size)
                             : most == kMostExponent ? "the largest that the key allows"
                                                     : fmt::format("of {} samples", samples);
  said = fmt::format("train.global_batch_size: auto is {} ({})\n", size, reason);
  return chosen;
}

void check_batch_is_chosen(const RunConfig& config, const std::string& program) {
  if (config.train.global_batch_size > 0) return;
  throw usage_error("train.global_batch_size: auto is chosen by dlrm-train; {} needs a number",
                    program);
}

}  // namespace dlrm
