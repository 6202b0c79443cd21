#include "dlrm/train/run.h"

#include <ctime>
#include <map>

#include "dlrm/core/host_name.h"
#include "dlrm/core/utc.h"
#include "dlrm/train/execution.h"
#include "dlrm/train/session.h"
#include "dlrm/train/trace_file.h"

#include "job_locks.h"
#include "preprocessing_check.h"
#include "run_setup.h"
#include "train/checkpoint/checkpoint_agreement.h"
#include "train/checkpoint/checkpoint_space.h"
#include "train/evaluation/prediction_file.h"
#include "train/reports/summarise.h"
#include "training_run.h"

namespace dlrm {
namespace {

void say_threads(Context& context, const MachineShare& share, int threads) {
  context.log.info("{} rank{}, {} thread{} each, {}", context.comm.size(),
                   context.comm.size() == 1 ? "" : "s", threads, threads == 1 ? "" : "s",
                   context.device.describe());
  if (share.cores * share.ranks_here < share.machine_cores && threads <= share.cores) {
    context.log.warn(
        "the launcher bound this rank to {} of the machine's {} cores, and {} rank(s) leave the "
        "others idle: mpirun --bind-to none, or more ranks, would use them",
        share.cores, share.machine_cores, share.ranks_here);
  }
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

/// Makes the records of --records the data to predict. Returns the keys to write beside them.
std::optional<PredictionKeys> open_records(Communicator& comm, const RunOptions& options,
                                           const StartingPoint& start, Sources& sources) {
  if (!options.records) return std::nullopt;
  const std::string bytes = read_preprocessing(start.path);
  auto records = std::make_unique<RecordSource>(options.config, *options.records,
                                                FilePreprocessing{start.path, bytes}, comm.rank(),
                                                comm.size());
  PredictionKeys keys{options.records->keys, [source = records.get()](int64_t first, int64_t last) {
                        return source->keys(first, last);
                      }};
  sources.test = std::move(records);
  return keys;
}

int64_t total_steps(const RunConfig& config, const BatchSource& source) {
  if (config.train.steps >= 0) return config.train.steps;
  return config.train.epochs * source.plan().batches_per_epoch();
}

/// A position in other data means nothing.
void check_same_data(const StartingPoint& start, const BatchSource& data) {
  const int64_t saved = start.state.data_samples, now = data.plan().samples;
  if (!start.resumed || saved == 0 || saved == now) return;
  throw usage_error(
      "data.train has {} samples, and that of {} had {}: --resume goes on in the same data; for "
      "other data, use --init-from",
      now, start.path, saved);
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
  return {step, logged, evaluations.has(step), config.data.valid.empty()};
}

void open_directory(RunDirectory& directory, const RunOptions& options, const Plan& plan,
                    const StartingPoint& start, const KeptLines& kept) {
  const std::string yaml = to_yaml(options.config);
  const std::string plan_json = to_json(plan, options.config.model);
  if (options.eval_only) return directory.attach(yaml, plan_json);
  if (start.resumed) return directory.resume(yaml, plan_json, kept);
  directory.start(yaml, plan_json);
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

/// Evaluates the weights after training. `predictions` receives the probability of every sample,
/// if it is not null.
void evaluate_at_end(const RunOptions& options, const StopSignal& stop, TrainingRun& run,
                     RunProgress& progress, PredictionFile* predictions) {
  if (progress.stopped) return;
  TakePredictions take;
  if (predictions) {
    take = [&](int64_t size, View<const float> probabilities, View<const float> labels) {
      predictions->append(size, probabilities, labels);
    };
  }
  if (options.records) run.predict(progress, stop, take);
  const bool evaluates = !options.records && (options.eval_only || options.config.eval.at_end);
  if (evaluates && run.evaluate_now(progress, stop, take) && !options.eval_only) {
    run.keep_best(progress);
  }
  if (evaluates && !options.eval_only && !progress.stopped) {
    run.say_best();
    run.test_best(progress, stop);
  }
  if (predictions && !progress.stopped) predictions->finish();
}

/// What this run should have left and did not, because it could not be written. On rank 0.
std::string lost_output(const TrainingRun& run, RunDirectory& directory) {
  const std::string files = directory.lost();
  if (run.unsaved().empty()) return files;
  return "no checkpoint: " + run.unsaved() + (files.empty() ? "" : "; " + files);
}

std::map<std::string, std::string> labels_of(const RunOptions& options, const std::string& began) {
  return {{"version", options.version},
          {"command", options.command},
          {"host", host_name()},
          {"started", began},
          {"ended", utc_text(std::time(nullptr))}};
}

/// Logs how the run went. Throws run_error if output is missing.
/// `written`: the folder that has the run's files, or nothing.
ExitCode report_end(Context& context, const TrainingRun& run, RunDirectory& directory,
                    const RunProgress& progress, const RunSummary& summary,
                    const std::string& written) {
  const Log& log = context.log;
  if (run.times().count() > 0) {
    log.info("{} steps, {:.0f} samples/s, {:.3f} ms a step", progress.step,
             summary.samples_per_second, summary.step_ms_mean);
  }
  if (!written.empty()) log.info("files in {}", written);
  const std::string lost = broadcast_text(context.comm, lost_output(run, directory));
  if (!lost.empty()) throw run_error("output was lost at step {}: {}", progress.step, lost);
  if (!progress.stopped) return ExitCode::kDone;
  log.info("stopped on request at step {}; --resume continues", progress.step);
  return ExitCode::kStopped;
}

}  // namespace

ExitCode run_training(World& world, const RunOptions& given) {
  Communicator& comm = world.comm();
  const Log log(comm.rank());
  Trace trace(!given.profile.empty());
  const StopSignal stop;
  const std::string began = utc_text(std::time(nullptr));
  world.start_watchdog(given.config.train.timeout, trace);
  const MachineShare share = machine_share(comm);
  const int threads = threads_for(given.config.train.threads, share);
  world.use_threads(threads);

  check_alike(comm, given);
  if (!given.predict.empty()) check_prediction_name(given.predict, given.records.has_value());
  Execution execution(comm, given.config, share);
  Context context = execution.context(trace, log);
  say_threads(context, share, threads);

  std::optional<WatchdogPause> waiting;
  if (given.config.data.source == DataKind::kCriteo) waiting.emplace(world);  // reads all text
  const PlanOptions& known = execution.plan_options();
  std::unique_ptr<BatchSource> counted;
  const RunOptions options = with_batch_size(comm, log, given, known, counted);
  Sources sources = open_sources(context, options, counted.get());
  counted.reset();
  waiting.emplace(world);
  JobLocks locks(comm);
  reserve_checkpoints(locks, comm, options);
  waiting.reset();
  const StartingPoint start = find_start(comm, log, options);
  waiting.emplace(world);
  const auto keys = open_records(comm, options, start, sources);
  check_preprocessing(context, options.config.model, sources, start);
  waiting.reset();
  const PlannedRun planned = plan_run(context, options.config, start, known);

  const auto ops = execution.make_ops(threads, options.check);
  // All checks precede the removal of earlier checkpoints.
  RunDirectory directory(comm, options.config.output.directory);
  if (!options.profile.empty()) check_trace_path(comm, options.profile);
  std::optional<WatchdogPause> loading(std::in_place, world);
  const bool writes = !options.records && reserve_output(locks, context, options);
  Trainer trainer(context, *ops, planned.trained, planned.plan,
                  !start.resumed && !options.eval_only);
  // A replayed graph has no stage times.
  trainer.use_graphs(!options.check && options.profile.empty());
  if (!options.profile.empty()) trainer.time_stages();

  const RunConfig& config = options.config;
  const auto to_the_end = [&] {
    std::optional<PredictionFile> predictions;
    if (!options.predict.empty()) {
      predictions.emplace(comm, options.predict, sources.test->plan().samples,
                          config.model.task_names(), keys);
    }
    RunProgress progress;
    EvaluationHistory evaluations(config.checkpoint.keep_best);
    check_same_data(start, sources.main());
    restore(context, trainer, start, options.eval_only, progress, evaluations);
    if (start.clears_folder) remove_checkpoints(comm, config.checkpoint.directory);
    loading.reset();

    const int64_t total = options.eval_only ? 0 : total_steps(config, sources.main());
    if (writes) {
      open_directory(directory, options, planned.plan, start,
                     kept_lines(config, evaluations, progress.step, total));
    }
    if (!options.eval_only && saves_checkpoints(config.checkpoint)) {
      const EvaluationSteps due(config.eval, sources.main().plan().batches_per_epoch());
      check_checkpoint_space(comm, log, config, due, trainer.shards(), progress.step, total);
    }
    TrainingRun run({context, world, locks, planned.trained, planned.plan, trainer, directory,
                     sources.main(), sources.valid.get(), sources.test.get(), evaluations,
                     threads});
    context.trace.reset_totals();
    run.train(progress, total, stop);
    if (options.check) trainer.embeddings().check_replicas();
    // Saved before the evaluation, so that nothing is lost if the evaluation fails.
    if (!options.eval_only && config.checkpoint.at_end) run.save(progress);
    evaluate_at_end(options, stop, run, progress, predictions ? &*predictions : nullptr);
    if (predictions && !progress.stopped) {
      log.info("predictions of {} samples in {}", sources.test->plan().samples, options.predict);
    }
    if (!options.eval_only && progress.stopped) run.save(progress);

    sum_counts(context, progress);
    RunSummary summary =
        summarise(context, planned.planned, planned.plan, progress, evaluations, run);
    summary.labels.merge(labels_of(options, began));
    const std::string lost = lost_output(run, directory);
    if (!lost.empty()) summary.labels["lost_output"] = lost;
    if (!options.eval_only) {
      directory.write_summary(summary);
    } else if (writes) {
      directory.update_evaluation(summary);
    }
    if (!options.profile.empty()) write_trace(comm, context.trace, options.profile);
    comm.barrier();
    return report_end(context, run, directory, progress, summary,
                      writes ? config.output.directory : "");
  };
  // An error is reported before the trainer is destroyed: other ranks may wait in its calls.
  return end_where_it_fails(world, to_the_end);
}

}  // namespace dlrm
