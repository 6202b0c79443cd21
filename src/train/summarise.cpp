#include "summarise.h"

#include <algorithm>

#include "dlrm/core/process_usage.h"

namespace dlrm {

namespace {

std::map<std::string, double> cache_figures(const CacheCounters& cache) {
  return {{"accesses", static_cast<double>(cache.accesses)},
          {"rows", static_cast<double>(cache.rows)},
          {"misses", static_cast<double>(cache.misses)},
          {"middle_reads", static_cast<double>(cache.middle_reads)},
          {"reads", static_cast<double>(cache.reads)},
          {"hit_rate", cache.hit_rate()},
          {"fetched_bytes", static_cast<double>(cache.fetched_bytes)},
          {"written_bytes", static_cast<double>(cache.written_bytes)},
          {"place_seconds", cache.place_seconds},
          {"fetch_seconds", cache.fetch_seconds},
          {"write_seconds", cache.write_seconds},
          {"exposed_seconds", cache.exposed_seconds}};
}

}  // namespace

RunSummary summarise(Context& context, const RunConfig& config, const Plan& plan,
                     const RunProgress& progress, const EvaluationHistory& evaluations,
                     const TrainingRun& run) {
  RunSummary s;
  const int64_t steps = run.times().count();
  if (progress.loop_seconds > 0) {
    s.samples_per_second = static_cast<double>(progress.samples_here) / progress.loop_seconds;
    s.data_wait_share = progress.wait_seconds / progress.loop_seconds;
  }
  s.steps = progress.step;
  s.samples = progress.samples;
  s.train_loss = progress.loss;
  s.eval = evaluations.last();
  s.slices = run.slices();
  s.best_eval = evaluations.best();
  s.world_size = context.comm.size();
  s.device = context.device.describe();
  s.wall_seconds = static_cast<double>(context.trace.now_ns()) * 1e-9;
  s.step_ms_mean = run.times().mean_ms();
  s.step_ms_p50 = run.times().percentile_ms(0.5);
  s.step_ms_p99 = run.times().percentile_ms(0.99);
  for (const auto& total : context.trace.totals()) {
    const std::string name = total.name;
    if (name == "checkpoint" || steps == 0) continue;
    s.stages_ms[name] = static_cast<double>(total.ns) * 1e-6 / static_cast<double>(steps);
  }
  s.numbers["dropped_ids"] = static_cast<double>(progress.dropped_ids);
  if (run.failed_saves() > 0)
    s.numbers["failed_checkpoints"] = static_cast<double>(run.failed_saves());
  s.cpu_utilization = progress.cpu_utilization;
  const auto needs = rank_memory(config, plan)[static_cast<size_t>(context.comm.rank())];
  s.memory["planned_bytes"] = needs.total();
  s.memory["library_bytes"] = needs.libraries;
  s.memory["table_bytes"] = needs.tables + needs.optimizer_state;
  if (needs.cache > 0) s.memory["cache_bytes"] = needs.cache;
  if (needs.host_cache > 0) s.memory["host_cache_bytes"] = needs.host_cache;
  s.memory["host_table_bytes"] = needs.host_tables;
  s.memory["host_optimizer_state_bytes"] = needs.host_optimizer_state;
  s.memory["device_peak_bytes"] = static_cast<double>(context.device.peak_bytes());
  if (context.device.can_capture()) {
    s.numbers["recorded_steps"] = static_cast<double>(progress.recorded_steps);
  }
  if (const auto& gpu = progress.gpu) {
    s.memory["gpu_used_bytes"] = static_cast<double>(gpu->memory_used);
    s.numbers["gpu_busy_share"] = gpu->busy_share;
    s.numbers["gpu_memory_busy_share"] = gpu->memory_busy_share;
  }
  s.memory["shared_peak_bytes"] = static_cast<double>(context.comm.shared_memory_peak());
  s.memory["process_peak_bytes"] = static_cast<double>(peak_share_bytes());
  s.labels["comm"] = context.device_comm().describe();
  const auto loads = rank_loads(config, plan);
  double bytes = 0, most = 0, sum = 0;
  for (const RankLoad& load : loads) {
    bytes += load.sent_bytes();
    most = std::max(most, load.lookups);
    sum += load.lookups;
  }
  if (progress.cache) s.cache = cache_figures(*progress.cache);
  s.plan["shards"] = static_cast<double>(plan.shards.size());
  s.plan["data_parallel_tables"] = static_cast<double>(plan.data_parallel.size());
  s.plan["expected_exchange_bytes"] = bytes;
  const auto per_step = [&](int64_t bytes) {
    return steps > 0 ? static_cast<double>(bytes) / static_cast<double>(steps) : 0;
  };
  s.plan["exchange_bytes"] = per_step(progress.sent.by_embeddings);
  s.plan["between_nodes_bytes"] = per_step(progress.sent.between_nodes);
  s.plan["lookup_imbalance"] = sum > 0 ? most * static_cast<double>(loads.size()) / sum : 1;
  return s;
}

}  // namespace dlrm
