#include "ready_run.h"

#include <ctime>
#include <map>

#include "dlrm/core/host_name.h"
#include "dlrm/core/utc.h"
#include "dlrm/train/trace_file.h"

#include "train/checkpoint/checkpoint_agreement.h"
#include "train/checkpoint/checkpoint_space.h"
#include "train/evaluation/prediction_file.h"
#include "train/reports/summarise.h"

namespace dlrm {
namespace {

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
  return {step, logged, evaluations.has(step)};
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

/// What this run should have left and did not, because it could not be written. On rank 0.
std::string lost_output(const TrainingRun& run, RunDirectory& directory) {
  const std::string files = directory.lost();
  if (run.unsaved().empty()) return files;
  return "no checkpoint: " + run.unsaved() + (files.empty() ? "" : "; " + files);
}

/// Evaluates the weights after training. `predictions` receives the probability of every sample,
/// if it is not null.
void evaluate_at_end(const ReadyRun& ready, TrainingRun& run, RunProgress& progress,
                     PredictionFile* predictions) {
  const RunOptions& options = ready.options;
  TakePredictions take;
  if (predictions) {
    take = [&](int64_t size, View<const float> probabilities, View<const float> labels) {
      predictions->append(size, probabilities, labels);
    };
  }
  const bool evaluates = options.eval_only || options.config.eval.at_end;
  if (!progress.stopped && evaluates && run.evaluate_now(progress, ready.stop, take) &&
      !options.eval_only) {
    run.keep_best(progress);
  }
  if (predictions && !progress.stopped) {
    predictions->finish();
    ready.context.log.info("predictions of {} samples in {}", ready.sources.test->plan().samples,
                           options.predict);
  }
}

RunSummary write_summary(const ReadyRun& ready, const TrainingRun& run, const RunProgress& progress,
                         const EvaluationHistory& evaluations) {
  const RunOptions& options = ready.options;
  RunSummary summary = summarise(ready.context, ready.planned.planned, ready.planned.plan, progress,
                                 evaluations, run);
  summary.labels.merge(std::map<std::string, std::string>{{"version", options.version},
                                                          {"command", options.command},
                                                          {"host", host_name()},
                                                          {"started", ready.began},
                                                          {"ended", utc_text(std::time(nullptr))}});
  const std::string lost_so_far = lost_output(run, ready.directory);
  if (!lost_so_far.empty()) summary.labels["lost_output"] = lost_so_far;
  if (!options.eval_only) {
    ready.directory.write_summary(summary);
  } else if (ready.writes) {
    ready.directory.update_evaluation(summary);
  }
  return summary;
}

/// Logs how the run went. Throws run_error if output is missing.
ExitCode report_end(const ReadyRun& ready, const TrainingRun& run, const RunProgress& progress,
                    const RunSummary& summary) {
  const Log& log = ready.context.log;
  if (run.times().count() > 0) {
    log.info("{} steps, {:.0f} samples/s, {:.3f} ms a step", progress.step,
             summary.samples_per_second, summary.step_ms_mean);
  }
  if (ready.writes) log.info("files in {}", ready.options.config.output.directory);
  const std::string lost = broadcast_text(ready.context.comm, lost_output(run, ready.directory));
  if (!lost.empty()) throw run_error("output was lost at step {}: {}", progress.step, lost);
  if (!progress.stopped) return ExitCode::kDone;
  log.info("stopped on request at step {}; --resume continues", progress.step);
  return ExitCode::kStopped;
}

}  // namespace

ExitCode run_to_end(const ReadyRun& ready, std::optional<WatchdogPause>& loading) {
  Context& context = ready.context;
  const RunOptions& options = ready.options;
  const RunConfig& config = options.config;
  const Sources& sources = ready.sources;
  std::optional<PredictionFile> predictions;
  if (!options.predict.empty()) {
    predictions.emplace(context.comm, options.predict, sources.test->plan().samples);
  }
  RunProgress progress;
  EvaluationHistory evaluations(config.checkpoint.keep_best);
  check_same_data(ready.start, sources.main());
  restore(context, ready.trainer, ready.start, options.eval_only, progress, evaluations);
  if (ready.start.clears_folder) remove_checkpoints(context.comm, config.checkpoint.directory);
  loading.reset();

  const int64_t total = options.eval_only ? 0 : total_steps(config, sources.main());
  if (ready.writes) {
    open_directory(ready.directory, options, ready.planned.plan, ready.start,
                   kept_lines(config, evaluations, progress.step, total));
  }
  if (!options.eval_only && saves_checkpoints(config.checkpoint)) {
    check_checkpoint_space(context.comm, context.log, config, ready.trainer.shards(), progress.step,
                           total);
  }
  TrainingRun run(context, ready.world, ready.locks, ready.planned.trained, ready.planned.plan,
                  ready.trainer, ready.directory, sources.main(), sources.test.get(), evaluations,
                  ready.threads);
  context.trace.reset_totals();
  run.train(progress, total, ready.stop);
  if (options.check) ready.trainer.embeddings().check_replicas();
  // Saved before the evaluation, so that nothing is lost if the evaluation fails.
  if (!options.eval_only && config.checkpoint.at_end) run.save(progress);
  evaluate_at_end(ready, run, progress, predictions ? &*predictions : nullptr);
  if (!options.eval_only && progress.stopped) run.save(progress);

  sum_counts(context, progress);
  const RunSummary summary = write_summary(ready, run, progress, evaluations);
  if (!options.profile.empty()) write_trace(context.comm, context.trace, options.profile);
  context.comm.barrier();
  return report_end(ready, run, progress, summary);
}

}  // namespace dlrm
