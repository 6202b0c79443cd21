#include "training_run.h"

#include <algorithm>

#include "dlrm/train/checkpoint.h"
#include "dlrm/train/local_bags.h"

#include "packing_source.h"

namespace dlrm {
namespace {

double seconds_since_start(const Trace& trace) {
  return static_cast<double>(trace.now_ns()) * 1e-9;
}

}  // namespace

bool is_enough(const EvaluationHistory& evaluations, const EvalConfig& config, const Log* log) {
  const auto& last = evaluations.last();
  if (!last) return false;
  if (config.stop_at_auc > 0 && last->result.auc.value_or(0) >= config.stop_at_auc) {
    if (log) log->info("step {}: the target AUC {} is reached", last->step, config.stop_at_auc);
    return true;
  }
  if (config.patience > 0 && evaluations.since_best() >= config.patience) {
    if (log) {
      log->info("step {}: {} evaluations without a better one end training (eval.patience)",
                last->step, evaluations.since_best());
    }
    return true;
  }
  return false;
}

TrainingRun::TrainingRun(const RunParts& parts)
    : parts_(parts),
      context_(parts.context),
      config_(parts.config),
      trainer_(parts.trainer),
      evaluations_(parts.evaluations),
      reports_(context_, config_, parts.directory, parts.train.plan().batches_per_epoch()),
      gpu_(make_utilisation_probe(context_.device)),
      due_(config_.eval, parts.train.plan().batches_per_epoch()) {}

void TrainingRun::train(RunProgress& progress, int64_t total, const StopSignal& stop) {
  if (progress.step >= total || is_enough(evaluations_, config_.eval, &context_.log)) return;
  // A run that was stopped before its evaluation makes up for it.
  evaluate_if_due(progress, total, stop);
  if (progress.stopped || is_enough(evaluations_, config_.eval)) return;
  keep_hot_rows(progress.step, total, stop);
  const PackingSource packing(parts_.train, trainer_.embeddings());
  Prefetcher batches(packing, progress.step, total, config_.data.workers, config_.data.prefetch);
  const CpuUsage usage;
  const SentBytes sent_before = sent_bytes();
  evaluations_sent_ = {};
  int64_t next_step = progress.step;  // the step of the batch that is routed next
  // Training and evaluation share a queue, so no batch is routed past an evaluation.
  int64_t route_limit = 0;  // batches from this one on are not routed yet
  const NextBatch next = [&]() -> const Batch* {
    if (next_step >= route_limit) return nullptr;
    const Span span(context_.trace, "data");
    const Batch* batch = batches.next();
    DLRM_CHECK(batch != nullptr, "the batches ended early");
    ++next_step;
    return batch;
  };
  restart_gpu_figures();
  while (progress.step < total && !progress.stopped) {
    const auto begin = Trace::Clock::now();
    route_limit = boundary_after(progress.step, total);
    StepResult result;
    try {
      result = trainer_.step(progress.step, stop.requested(), next);
    } catch (const RowsDoNotFit& error) {
      if (error.code() == ExitCode::kFailure) save(progress);  // what the steps so far have made
      throw;
    }
    const double seconds = std::chrono::duration<double>(Trace::Clock::now() - begin).count();
    ++progress.step;
    progress.samples += result.samples;
    progress.samples_here += result.samples;
    progress.loss = result.loss;
    progress.dropped_ids += result.dropped;
    progress.loop_seconds += seconds;
    progress.stopped = result.stop;
    gpu_.sample(seconds_since_start(context_.trace));
    progress.cache = trainer_.embeddings().cache_counters();
    reports_.step(progress, result.samples, seconds, total);
    progress.cpu_utilization = usage.utilization(parts_.threads);
    if (progress.stopped) break;
    evaluate_if_due(progress, total, stop);
    if (is_due(progress.step, config_.checkpoint.every_steps)) save(progress);
    if (evaluations_.has(progress.step) && is_enough(evaluations_, config_.eval, &context_.log)) {
      break;
    }
  }
  reports_.finish();
  trainer_.check_last_update();
  trainer_.finish_stages();
  progress.wait_seconds = batches.wait_seconds();
  progress.sent = sent_bytes() - sent_before - evaluations_sent_;
  progress.recorded_steps = trainer_.steps_replayed();
  progress.gpu = gpu_.mean();
  reports_.clear_line();
}

SentBytes TrainingRun::sent_bytes() const {
  return {trainer_.traffic().total(), context_.comm.node_traffic().sent};
}

/// Counts the rows of the next batches if the policy of cached tables is static.
void TrainingRun::keep_hot_rows(int64_t step, int64_t total, const StopSignal& stop) {
  constexpr int64_t kMostBatches = 1000;
  const int64_t most = std::min(kMostBatches, parts_.train.plan().batches_per_epoch());
  std::optional<Prefetcher> batches;
  const int64_t counted = trainer_.embeddings().keep_hot_rows([&] {
    if (!batches) {
      batches.emplace(parts_.train, step, std::min(total, step + most), config_.data.workers,
                      config_.data.prefetch);
    }
    int64_t stopping = stop.requested() ? 1 : 0;
    context_.comm.allreduce_max({&stopping, 1});
    const Batch* batch = stopping ? nullptr : batches->next();
    if (!batch) return false;
    trainer_.embeddings().route(bags_of(*batch));
    return true;
  });
  if (counted == 0) return;
  context_.log.info("memory.cached.policy static: the rows of {} batches were counted", counted);
}

/// The next step before which an evaluation runs, or `total`.
int64_t TrainingRun::boundary_after(int64_t step, int64_t total) const {
  return parts_.during() ? due_.next_after(step, total) : total;
}

/// Excludes GPU work done since the figures were last read.
void TrainingRun::restart_gpu_figures() { gpu_.begin(seconds_since_start(context_.trace)); }

/// Evaluates if the weights of `progress` are due and training goes on.
void TrainingRun::evaluate_if_due(RunProgress& progress, int64_t total, const StopSignal& stop) {
  if (progress.step == 0 || progress.step >= total) return;
  if (!due_.due(progress.step)) return;
  if (evaluate_now(progress, stop)) keep_best(progress);
}

/// No value if the evaluation was stopped.
std::optional<EvalResult> TrainingRun::evaluate_source(const BatchSource& source,
                                                       RunProgress& progress,
                                                       const StopSignal& stop,
                                                       const TakePredictions& take,
                                                       SlicedResult& sliced) {
  reports_.clear_line();
  context_.trace.count_totals(false);
  const SentBytes sent_before = sent_bytes();
  std::optional<EvaluationSlices> slices;
  std::optional<SampleIds> groups;
  if (!config_.eval.slice_by.empty()) slices.emplace(config_.model, config_.eval.slice_by);
  if (!config_.eval.group_by.empty()) groups.emplace(config_.model, config_.eval.group_by);
  EvaluationExtras extras{take, slices ? &*slices : nullptr, groups ? &*groups : nullptr};
  extras.progress = [&](int64_t batches, int64_t samples) {
    reports_.evaluating(progress.step, batches, samples, source.plan().batches_per_epoch());
  };
  const auto result = evaluate(context_, trainer_, source, config_, stop, extras);
  reports_.clear_line();
  context_.trace.count_totals(true);
  evaluations_sent_ += sent_bytes() - sent_before;
  restart_gpu_figures();
  progress.stopped = !result;
  if (result && slices) {
    sliced = slices->result();
    try {
      if (context_.comm.rank() == 0) set_values(sliced, source.preprocessing().bytes);
    } catch (const Error& error) {
      context_.log.warn("{}", error.what());
    }
  }
  return result;
}

bool TrainingRun::evaluate_now(RunProgress& progress, const StopSignal& stop,
                               const TakePredictions& take) {
  const BatchSource* const source = parts_.during();
  if (!source || evaluations_.has(progress.step)) return false;
  const auto result = evaluate_source(*source, progress, stop, take, slices_);
  if (!result) return false;
  const bool best = evaluations_.add({progress.step, *result});
  reports_.evaluation(*evaluations_.last(), parts_.valid ? "valid" : "test");
  reports_.slices(slices_);
  return best;
}

void TrainingRun::predict(RunProgress& progress, const StopSignal& stop,
                          const TakePredictions& take) {
  SlicedResult none;
  evaluate_source(*parts_.test, progress, stop, take, none);
}

void TrainingRun::say_best() const {
  const auto& best = evaluations_.best();
  if (best && best->step != evaluations_.last()->step) reports_.best(*best);
}

void TrainingRun::test_best(RunProgress& progress, const StopSignal& stop) {
  if (!parts_.valid || !parts_.test) return;
  int64_t step = progress.step;
  const auto& best = evaluations_.best();
  if (best && best->step != step && config_.checkpoint.keep_best != BestMetric::kNone &&
      load_best(best->step)) {
    last_saved_ = step;  // these weights are not those of that step
    step = best->step;
  }
  const auto result = evaluate_source(*parts_.test, progress, stop, {}, test_slices_);
  if (!result) return;
  tested_ = Evaluation{step, *result};
  reports_.evaluation(*tested_, "test");
  reports_.slices(test_slices_);
}

/// Loads the weights of the best checkpoint. Returns false, after a warning, if it is not that of
/// `step`, since it could not be saved or was changed.
bool TrainingRun::load_best(int64_t step) {
  const WatchdogPause loading(parts_.world);
  const std::string& folder = config_.checkpoint.directory;
  const auto kept = find_trained(context_.comm, folder);
  if (!kept || open_checkpoint(context_.comm, *kept, true).step != step) {
    if (context_.comm.rank() == 0) {
      context_.log.warn("{}: the best weights, of step {}, are not there: testing the last ones",
                        folder, step);
    }
    return false;
  }
  load_pieces(context_.comm, *kept, trainer_.shards(), true);
  trainer_.weights_changed();
  context_.log.info("weights from {} (step {}), the best", *kept, step);
  return true;
}

void TrainingRun::keep_best(const RunProgress& progress) {
  if (config_.checkpoint.keep_best == BestMetric::kNone) return;
  save(progress);
  if (last_saved_ != progress.step) return;  // `best` stays what it is
  write_or_go_on(progress.step, [&] {
    mark_best_checkpoint(context_.comm, context_.log, config_.checkpoint.directory,
                         config_.checkpoint.keep, progress.step);
  });
}

/// Runs a collective call that writes checkpoints. An error in it, which is the same on every rank,
/// does not end training. Warns about the first of several in a row.
template <class Write>
void TrainingRun::write_or_go_on(int64_t step, const Write& write) {
  try {
    write();
    unsaved_.clear();
  } catch (const PeerLost&) {
    throw;
  } catch (const NotFinite&) {
    throw;
  } catch (const Error& error) {
    ++failed_saves_;
    if (unsaved_.empty() && context_.comm.rank() == 0) {
      context_.log.warn(
          "step {}: not saved: {}; training continues, and the next checkpoint is tried when it is "
          "due",
          step, error.what());
    }
    unsaved_ = error.what();
  }
}

void TrainingRun::save(const RunProgress& progress) {
  if (last_saved_ == progress.step) return;
  trainer_.check_last_update();
  reports_.clear_line();
  Span span(context_.trace, "checkpoint");
  const WatchdogPause saving(parts_.world);
  const BatchPlan& batches = parts_.train.plan();
  CheckpointState state;
  state.step = progress.step;
  state.samples = progress.samples;
  state.epoch = progress.step / batches.batches_per_epoch();
  state.batch = progress.step % batches.batches_per_epoch();
  state.seed = config_.train.seed;
  state.data_samples = batches.samples;
  state.config = to_yaml(config_);
  if (context_.comm.rank() == 0) state.preprocessing = parts_.train.preprocessing().bytes;
  state.plan = to_json(parts_.plan, config_.model);
  state.tuned_algorithms = trainer_.tuned_algorithms();
  state.evaluations = evaluations_.text();
  write_or_go_on(progress.step, [&] {
    parts_.locks.reserve("checkpoint.directory", config_.checkpoint.directory);
    save_checkpoint(context_.comm, context_.log, config_.checkpoint.directory,
                    config_.checkpoint.keep, state, trainer_.shards());
  });
  restart_gpu_figures();
  if (!unsaved_.empty()) return;
  last_saved_ = progress.step;
  context_.log.info("step {}: saved in {}", progress.step, config_.checkpoint.directory);
}

}  // namespace dlrm
