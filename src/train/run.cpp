#include "dlrm/train/run.h"

#include "dlrm/core/host_name.h"
#include "dlrm/core/utc.h"
#include "dlrm/train/execution.h"
#include "dlrm/train/session.h"
#include "dlrm/train/trace_file.h"

#include "checkpoint_agreement.h"
#include "job_locks.h"
#include "prediction_file.h"
#include "summarise.h"
#include "training_run.h"

namespace dlrm {
namespace {

void say_threads(Context& context, const MachineShare& share, int threads) {
  context.log.info("{} rank{}, {} thread{} each, {}", context.comm.size(),
                   context.comm.size() == 1 ? "" : "s", threads, threads == 1 ? "" : "s",
                   context.device.describe());
  if (share.cpus * share.ranks_here < share.machine_cpus && threads <= share.cpus) {
    context.log.warn(
        "the launcher bound this rank to {} of the machine's {} CPUs, and {} rank(s) leave the "
        "others "
        "idle: mpirun --bind-to none, or more ranks, would use them",
        share.cpus, share.machine_cpus, share.ranks_here);
  }
}

int64_t total_steps(const RunConfig& config, const BatchSource& source) {
  if (config.train.steps >= 0) return config.train.steps;
  return config.train.epochs * source.plan().batches_per_epoch();
}

/// Logged before the run, for comparison with the summary's memory.
void say_memory(const Log& log, const RunConfig& config, const Plan& plan) {
  const auto all = rank_memory(config, plan);
  const RankMemory& most = *std::max_element(
      all.begin(), all.end(), [](const auto& a, const auto& b) { return a.total() < b.total(); });
  const auto gib = [](double bytes) { return bytes / 0x1p30; };
  log.info(
      "memory: {:.2f} GiB for the fullest rank: tables {:.2f}, their optimizer state {:.2f}, all "
      "else {:.2f}",
      gib(most.total()), gib(most.tables), gib(most.optimizer_state),
      gib(most.total() - most.tables - most.optimizer_state));
  const RankMemory& host = *std::max_element(
      all.begin(), all.end(),
      [](const auto& a, const auto& b) { return a.host_total() < b.host_total(); });
  if (host.host_total() == 0) return;
  log.info(
      "memory: {:.2f} GiB of the host's for the rank with most there: tables {:.2f}, their "
      "optimizer state {:.2f}{}",
      gib(host.host_total()), gib(host.host_tables), gib(host.host_optimizer_state),
      host.host_cache > 0 ? fmt::format(", cached tables {:.2f}", gib(host.host_cache)) : "");
}

/// Loads weights from the starting point. If the run is resumed, loads all other state as well.
void restore(Context& context, Trainer& trainer, const StartingPoint& start, bool evaluates,
             RunProgress& progress, EvaluationHistory& evaluations) {
  if (start.path.empty()) return;
  load_pieces(context.comm, start.path, trainer.shards(), !start.resumed);
  trainer.weights_changed();
  if (start.resumed) trainer.restore_tuned_algorithms(start.state.tuned_algorithms);
  progress.step = start.resumed || evaluates ? start.state.step : 0;
  progress.samples = start.resumed ? start.state.samples : 0;
  if (start.resumed) evaluations.restore(start.state.evaluations);
  context.log.info("{} {} (step {})", start.resumed ? "resumed from" : "weights from", start.path,
                   start.state.step);
}

/// Of the restored step, the lines of metrics.jsonl remain that an uninterrupted run has too.
KeptLines kept_lines(const RunConfig& config, const EvaluationHistory& evaluations, int64_t step,
                     int64_t total) {
  const bool logged = step == 1 || step == total || is_due(step, config.output.metrics_every) ||
                      is_enough(evaluations, config.eval);
  return {step, logged, evaluations.has(step)};
}

/// Reserves checkpoint.directory, before anything in it is read, if this run may save or remove
/// checkpoints. A run without checkpoints reserves it only if it is asked to stop and save.
void reserve_checkpoints(JobLocks& locks, Communicator& comm, const RunOptions& options) {
  const CheckpointConfig& own = options.config.checkpoint;
  const bool removes = options.overwrite && has_checkpoints(comm, own.directory);
  if (options.eval_only || (!saves_checkpoints(own) && !removes)) return;
  locks.reserve("checkpoint.directory", own.directory);
}

/// Reserves output.directory. An evaluation without training reserves nothing. If another job uses
/// the folder, it writes nothing and logs that. Returns true if this run may write.
bool reserve_output(JobLocks& locks, Context& context, const RunOptions& options) {
  const std::string& directory = options.config.output.directory;
  if (!options.eval_only) {
    locks.reserve("output.directory", directory);
    return true;
  }
  const std::string user = user_of(context.comm, directory);
  if (user.empty()) return true;
  if (context.comm.rank() == 0) context.log.warn("{}; the evaluation is only logged", user);
  return false;
}

void open_directory(RunDirectory& directory, const RunOptions& options, const Plan& plan,
                    const StartingPoint& start, const KeptLines& kept) {
  const std::string yaml = to_yaml(options.config);
  const std::string plan_json = to_json(plan, options.config.model);
  if (options.eval_only) return directory.attach(yaml, plan_json);
  if (start.resumed) return directory.resume(yaml, plan_json, kept);
  directory.start(yaml, plan_json);
}

/// Sums over all ranks.
void add_up(Communicator& comm, CacheCounters& cache) {
  int64_t* const counts[] = {&cache.accesses,     &cache.rows,  &cache.misses,
                             &cache.middle_reads, &cache.reads, &cache.fetched_bytes,
                             &cache.written_bytes};
  for (int64_t* count : counts) comm.allreduce<int64_t>({count, 1});
  double* const times[] = {&cache.place_seconds, &cache.fetch_seconds, &cache.write_seconds,
                           &cache.exposed_seconds};
  for (double* seconds : times) comm.allreduce<double>({seconds, 1});
}

/// Adds the counts of all ranks. Warns about dropped ids, because they show that data and config
/// disagree.
void sum_counts(Context& context, RunProgress& progress) {
  int64_t counts[] = {progress.dropped_ids, progress.sent.by_embeddings,
                      progress.sent.between_nodes};
  context.comm.allreduce<int64_t>(counts);
  progress.dropped_ids = counts[0];
  progress.sent = {counts[1], counts[2]};
  if (progress.cache) add_up(context.comm, *progress.cache);
  if (progress.dropped_ids > 0 && context.comm.rank() == 0) {
    context.log.warn("{} invalid ids were dropped (data.invalid_id: drop)", progress.dropped_ids);
  }
}

/// What this run should have left and did not, because it could not be written. On rank 0.
std::string lost_output(const TrainingRun& run, RunDirectory& directory) {
  const std::string files = directory.lost();
  if (run.unsaved().empty()) return files;
  return "no checkpoint: " + run.unsaved() + (files.empty() ? "" : "; " + files);
}

/// The sources of a run. An evaluation without training needs no training data.
struct Sources {
  std::unique_ptr<BatchSource> train, test;
  const BatchSource& main() const { return train ? *train : *test; }
};

Sources open_sources(Context& context, const RunOptions& options) {
  const int rank = context.comm.rank(), size = context.comm.size();
  Sources sources;
  sources.test = make_batch_source(options.config, Split::kTest, rank, size);
  if (options.eval_only && !sources.test) {
    throw usage_error("{}: data.test names no file to evaluate on",
                      options.predict.empty() ? "--eval-only" : "--predict");
  }
  const bool compares =
      options.config.checkpoint.keep_best != BestMetric::kNone || options.config.eval.patience > 0;
  if (compares && !sources.test) {
    throw usage_error(
        "checkpoint.keep_best and eval.patience compare evaluations: data.test names no file to "
        "evaluate on");
  }
  if (!options.eval_only) {
    sources.train = make_batch_source(options.config, Split::kTrain, rank, size);
    context.log.info("training on {}", sources.train->describe());
  }
  if (!sources.test) context.log.info("no test data: no evaluation");
  return sources;
}

}  // namespace

ExitCode run_training(World& world, const RunOptions& given) {
  Communicator& comm = world.comm();
  const Log log(comm.rank());
  Trace trace(!given.profile.empty());
  const StopSignal stop;
  const std::string started = utc_text(std::time(nullptr));
  world.start_watchdog(given.config.train.timeout, trace);
  const MachineShare share = machine_share(comm);
  const int threads = threads_for(given.config.train.threads, share);
  world.use_threads(threads);

  check_alike(comm, given);
  if (!given.predict.empty()) check_prediction_name(given.predict);
  Execution execution(comm, given.config, share);
  Context context = execution.context(trace, log);
  say_threads(context, share, threads);

  std::optional<WatchdogPause> waiting;
  if (given.config.data.source == DataKind::kCriteo) waiting.emplace(world);  // reads all text
  const PlanOptions& known = execution.plan_options();
  const RunOptions options = with_batch_size(comm, log, given, known);
  const RunConfig& config = options.config;
  const Sources sources = open_sources(context, options);
  waiting.emplace(world);
  JobLocks locks(comm);
  reserve_checkpoints(locks, comm, options);
  waiting.reset();
  const StartingPoint start = find_start(comm, log, options);
  const RunConfig trained = with_chosen_caches(config, comm.size(), known);
  const RunConfig planned = with_known_device(trained, known);
  const Plan plan = choose_plan(comm, log, planned, start, known);
  check_alike(comm, plan, config.model);
  check_memory(log, planned, plan, known);
  if (comm.rank() == 0) {
    fmt::print(stderr, "{}{}\n", describe_choice(config, trained), describe_plan(planned, plan));
  }
  say_memory(log, planned, plan);

  const auto ops = execution.make_ops(threads, options.check);
  RunProgress progress;
  EvaluationHistory evaluations(config.checkpoint.keep_best);
  // All checks precede the removal of earlier checkpoints.
  RunDirectory directory(comm, config.output.directory);
  if (!options.profile.empty()) check_trace_path(comm, options.profile);
  std::optional<WatchdogPause> loading(std::in_place, world);
  const bool writes = reserve_output(locks, context, options);
  Trainer trainer(context, *ops, trained, plan, !start.resumed && !options.eval_only);
  // A replayed graph has no stage times.
  trainer.use_graphs(!options.check && options.profile.empty());
  if (!options.profile.empty()) trainer.time_stages();
  // An error is reported before the trainer is destroyed: other ranks may wait in its calls.
  return end_where_it_fails(world, [&] {
    std::optional<PredictionFile> predictions;
    if (!options.predict.empty()) {
      predictions.emplace(comm, options.predict, sources.test->plan().samples);
    }
    restore(context, trainer, start, options.eval_only, progress, evaluations);
    if (start.clears_folder) remove_checkpoints(comm, config.checkpoint.directory);
    loading.reset();

    const int64_t total = options.eval_only ? 0 : total_steps(config, sources.main());
    if (writes) {
      open_directory(directory, options, plan, start,
                     kept_lines(config, evaluations, progress.step, total));
    }

    TrainingRun run(context, world, locks, trained, plan, trainer, directory, sources.main(),
                    sources.test.get(), evaluations, threads);
    trace.reset_totals();
    run.train(progress, total, stop);
    if (options.check) trainer.embeddings().check_replicas();
    // Saved before the evaluation, so that nothing is lost if the evaluation fails.
    if (!options.eval_only && config.checkpoint.at_end) run.save(progress);
    const bool evaluates = options.eval_only || config.eval.at_end;
    TakePredictions take;
    if (predictions) {
      take = [&](int64_t size, View<const float> probabilities, View<const float> labels) {
        predictions->append(size, probabilities, labels);
      };
    }
    if (!progress.stopped && evaluates && run.evaluate_now(progress, stop, take) &&
        !options.eval_only) {
      run.keep_best(progress);
    }
    if (predictions && !progress.stopped) {
      predictions->finish();
      log.info("predictions of {} samples in {}", sources.test->plan().samples, options.predict);
    }
    if (!options.eval_only && progress.stopped) run.save(progress);

    sum_counts(context, progress);
    RunSummary summary = summarise(context, planned, plan, progress, evaluations, run);
    summary.labels.merge(
        std::map<std::string, std::string>{{"version", options.version},
                                           {"command", options.command},
                                           {"host", host_name()},
                                           {"started", started},
                                           {"ended", utc_text(std::time(nullptr))}});
    const std::string lost_so_far = lost_output(run, directory);
    if (!lost_so_far.empty()) summary.labels["lost_output"] = lost_so_far;
    if (!options.eval_only) {
      directory.write_summary(summary);
    } else if (writes) {
      directory.update_evaluation(summary);
    }
    if (!options.profile.empty()) write_trace(comm, trace, options.profile);
    comm.barrier();
    if (run.times().count() > 0) {
      log.info("{} steps, {:.0f} samples/s, {:.3f} ms a step", progress.step,
               summary.samples_per_second, summary.step_ms_mean);
    }
    if (writes) log.info("files in {}", config.output.directory);
    const std::string lost = broadcast_text(comm, lost_output(run, directory));
    if (!lost.empty()) throw run_error("output was lost at step {}: {}", progress.step, lost);
    if (!progress.stopped) return ExitCode::kDone;
    log.info("stopped on request at step {}; --resume continues", progress.step);
    return ExitCode::kStopped;
  });
}

}  // namespace dlrm
