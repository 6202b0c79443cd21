#include "summarise.h"

#include <algorithm>
#include <sstream>

#include "dlrm/core/isa.h"
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

/// Mean milliseconds of each stage in a step. Saving is no part of a step.
std::map<std::string, double> stages_ms(const Trace& trace, int64_t steps) {
  std::map<std::string, double> stages;
  for (const auto& total : trace.totals()) {
    const std::string name = total.name;
    if (name == "checkpoint" || steps == 0) continue;
    stages[name] = static_cast<double>(total.ns) * 1e-6 / static_cast<double>(steps);
  }
  return stages;
}

/// What the plan has for this rank, and peaks of what it took. Bytes.
std::map<std::string, double> memory_figures(Context& context, const RankMemory& needs) {
  std::map<std::string, double> memory;
  memory["planned_bytes"] = needs.total();
  memory["library_bytes"] = needs.libraries;
  memory["table_bytes"] = needs.tables + needs.optimizer_state;
  if (needs.cache > 0) memory["cache_bytes"] = needs.cache;
  if (needs.host_cache > 0) memory["host_cache_bytes"] = needs.host_cache;
  memory["host_table_bytes"] = needs.host_tables;
  memory["host_optimizer_state_bytes"] = needs.host_optimizer_state;
  memory["device_peak_bytes"] = static_cast<double>(context.device.peak_bytes());
  memory["shared_peak_bytes"] = static_cast<double>(context.comm.shared_memory_peak());
  memory["process_peak_bytes"] = static_cast<double>(peak_share_bytes());
  return memory;
}

/// The plan's shards, and bytes per step: expected by the plan, and sent in `steps` steps.
std::map<std::string, double> plan_figures(const RunConfig& config, const Plan& plan,
                                           const SentBytes& sent, int64_t steps) {
  const auto loads = rank_loads(config, plan);
  double expected = 0, most = 0, sum = 0;
  for (const RankLoad& load : loads) {
    expected += load.sent_bytes();
    most = std::max(most, load.lookups);
    sum += load.lookups;
  }
  const auto per_step = [&](int64_t bytes) {
    return steps > 0 ? static_cast<double>(bytes) / static_cast<double>(steps) : 0;
  };
  return {{"shards", static_cast<double>(plan.shards.size())},
          {"data_parallel_tables", static_cast<double>(plan.data_parallel.size())},
          {"expected_exchange_bytes", expected},
          {"exchange_bytes", per_step(sent.by_embeddings)},
          {"between_nodes_bytes", per_step(sent.between_nodes)},
          {"lookup_imbalance", sum > 0 ? most * static_cast<double>(loads.size()) / sum : 1}};
}

}  // namespace

std::map<std::string, double> most_of_ranks(Communicator& comm,
                                            const std::map<std::string, double>& own) {
  std::string names;
  std::vector<double> values;
  for (const auto& [name, value] : own) {
    names += name + '\n';
    values.push_back(value);
  }
  const std::vector<char> all_names =
      comm.allgatherv<char>(View<const char>(names.data(), names.size()));
  const std::vector<double> all_values = comm.allgatherv<double>(View<const double>(values));
  std::istringstream lines(std::string(all_names.begin(), all_names.end()));
  std::map<std::string, double> most;
  for (const double value : all_values) {
    std::string name;
    std::getline(lines, name);
    most[name] = std::max(most[name], value);
  }
  return most;
}

void add_up(Communicator& comm, CacheCounters& cache) {
  int64_t* const counts[] = {&cache.accesses,     &cache.rows,  &cache.misses,
                             &cache.middle_reads, &cache.reads, &cache.fetched_bytes,
                             &cache.written_bytes};
  for (int64_t* count : counts) comm.allreduce<int64_t>({count, 1});
  double* const times[] = {&cache.place_seconds, &cache.fetch_seconds, &cache.write_seconds,
                           &cache.exposed_seconds};
  for (double* seconds : times) comm.allreduce<double>({seconds, 1});
}

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
  s.test = run.tested();
  s.test_slices = run.test_slices();
  s.world_size = context.comm.size();
  s.device = context.device.describe();
  s.wall_seconds = static_cast<double>(context.trace.now_ns()) * 1e-9;
  s.step_ms_mean = run.times().mean_ms();
  s.step_ms_p50 = run.times().percentile_ms(0.5);
  s.step_ms_p99 = run.times().percentile_ms(0.99);
  s.stages_ms = stages_ms(context.trace, steps);
  s.stages_max_ms = most_of_ranks(context.comm, s.stages_ms);
  s.cpu_utilization = progress.cpu_utilization;
  s.memory =
      memory_figures(context, rank_memory(config, plan)[static_cast<size_t>(context.comm.rank())]);
  s.plan = plan_figures(config, plan, progress.sent, steps);
  if (progress.cache) s.cache = cache_figures(*progress.cache);
  s.labels["instruction_set"] = name_of(vector_isa());
  s.labels["comm"] = context.device_comm().describe();
  s.numbers["dropped_ids"] = static_cast<double>(progress.dropped_ids);
  if (run.failed_saves() > 0) {
    s.numbers["failed_checkpoints"] = static_cast<double>(run.failed_saves());
  }
  if (context.device.can_capture()) {
    s.numbers["recorded_steps"] = static_cast<double>(progress.recorded_steps);
  }
  if (const auto& gpu = progress.gpu) {
    s.memory["gpu_used_bytes"] = static_cast<double>(gpu->memory_used);
    s.numbers["gpu_busy_share"] = gpu->busy_share;
    s.numbers["gpu_memory_busy_share"] = gpu->memory_busy_share;
  }
  return s;
}

}  // namespace dlrm
