#include "training_run.h"

#include <algorithm>

namespace dlrm {
namespace {

double seconds_since_start(const Trace& trace) {
  return static_cast<double>(trace.now_ns()) * 1e-9;
}

bool due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

}  // namespace

TrainingRun::TrainingRun(Context& context, World& world, const RunConfig& config, const Plan& plan,
                         Trainer& trainer, RunDirectory& directory, const BatchSource& train,
                         const BatchSource* test, int threads)
    : context_(context),
      world_(world),
      config_(config),
      plan_(plan),
      trainer_(trainer),
      directory_(directory),
      train_(train),
      test_(test),
      threads_(threads),
      line_(context.log),
      gpu_(make_utilisation_probe(context.device)) {}

void TrainingRun::train(RunProgress& progress, int64_t total, const StopSignal& stop) {
  if (progress.step >= total) return;
  Prefetcher batches(train_, progress.step, total, config_.data.workers, config_.data.prefetch);
  CpuUsage usage;
  const int64_t sent_before = trainer_.traffic().total();
  evaluation_bytes_ = 0;
  next_ = progress.step;
  int64_t boundary = 0;
  // Nothing is routed past an evaluation, which uses the same queue.
  const NextBatch next = [&] { return next_ < boundary ? next_of(batches) : nullptr; };
  gpu_.begin(seconds_since_start(context_.trace));
  while (progress.step < total && !progress.stopped) {
    const auto begin = Trace::Clock::now();
    boundary = boundary_after(progress.step, total);
    const StepResult result =
        step_ahead(trainer_, progress.step, stop.requested(), config_.routing.depth, next);
    const double seconds = std::chrono::duration<double>(Trace::Clock::now() - begin).count();
    progress.stopped = result.stop;
    record(progress, result, total, seconds);
    progress.cpu_utilization = usage.utilization(threads_);
    if (progress.stopped) break;
    const bool reached = due(progress.step, config_.eval.every_steps) && progress.step < total &&
                         evaluate_now(progress, stop);
    if (due(progress.step, config_.checkpoint.every_steps)) save(progress);
    if (reached) break;
  }
  log_last();
  trainer_.check_last_update();
  trainer_.finish_stages();
  progress.wait_seconds = batches.wait_seconds();
  progress.exchanged_bytes = trainer_.traffic().total() - sent_before - evaluation_bytes_;
  progress.recorded_steps = trainer_.steps_launched();
  progress.gpu = gpu_.mean();
  line_.clear();
}

int64_t TrainingRun::boundary_after(int64_t step, int64_t total) const {
  const int64_t every = test_ ? config_.eval.every_steps : 0;
  return every > 0 ? std::min(total, (step / every + 1) * every) : total;
}

const Batch* TrainingRun::next_of(Prefetcher& batches) {
  Span span(context_.trace, "data");
  const Batch* batch = batches.next();
  DLRM_CHECK(batch != nullptr, "the batches ended early");
  ++next_;
  return batch;
}

void TrainingRun::record(RunProgress& progress, const StepResult& result, int64_t total,
                         double seconds) {
  ++progress.step;
  progress.samples += result.samples;
  progress.samples_here += result.samples;
  progress.loss = result.loss;
  progress.dropped_ids += result.dropped;
  progress.loop_seconds += seconds;
  times_.add(seconds);
  gpu_.sample(seconds_since_start(context_.trace));
  window_seconds_ += seconds;
  window_samples_ += result.samples;
  const double rate = static_cast<double>(window_samples_) / window_seconds_;
  const bool last = progress.step == total || progress.stopped;
  const bool logged =
      progress.step == 1 || due(progress.step, config_.output.metrics_every) || last;
  const double lr =
      config_.train.dense_optimizer.lr * config_.train.lr_schedule.factor(progress.step - 1);
  unlogged_ = StepMetrics{progress.step, progress.samples, progress.loss, lr, rate};
  if (logged) {
    log_last();
    window_seconds_ = 0;
    window_samples_ = 0;
  }
  line_.update({progress.step, total, progress.loss, rate}, logged);
}

void TrainingRun::log_last() {
  if (unlogged_) directory_.log(*unlogged_);
  unlogged_.reset();
}

bool TrainingRun::evaluate_now(RunProgress& progress, const StopSignal& stop) {
  if (!test_) return false;
  line_.clear();
  context_.trace.count_totals(false);
  const int64_t sent_before = trainer_.traffic().total();
  const auto result =
      evaluate(context_, trainer_, *test_, config_.data, config_.routing.depth, stop);
  context_.trace.count_totals(true);
  evaluation_bytes_ += trainer_.traffic().total() - sent_before;
  gpu_.begin(seconds_since_start(context_.trace));
  if (!result) {
    progress.stopped = true;
    return false;
  }
  progress.eval = result;
  last_evaluated_ = progress.step;
  directory_.log(progress.step, *result);
  context_.log.info("step {}: test AUC {}, log loss {:.5f}, accuracy {:.4f}, calibration {:.3f}",
                    progress.step,
                    result->auc ? fmt::format("{:.5f}", *result->auc) : "none (one class)",
                    result->log_loss, result->accuracy, result->calibration);
  const double target = config_.eval.stop_at_auc;
  if (target <= 0 || !result->auc || *result->auc < target) return false;
  context_.log.info("step {}: the target AUC {} is reached", progress.step, target);
  return true;
}

void TrainingRun::save(const RunProgress& progress) {
  if (last_saved_ == progress.step) return;
  trainer_.check_last_update();
  line_.clear();
  Span span(context_.trace, "checkpoint");
  const WatchdogPause saving(world_);
  const BatchPlan& batches = train_.plan();
  CheckpointState state;
  state.step = progress.step;
  state.samples = progress.samples;
  state.epoch = progress.step / batches.batches_per_epoch();
  state.batch = progress.step % batches.batches_per_epoch();
  state.seed = config_.train.seed;
  state.config = to_yaml(config_);
  state.plan = to_json(plan_, config_.model);
  state.tuned_algorithms = trainer_.tuned_algorithms();
  save_checkpoint(context_.comm, context_.log, config_.checkpoint.directory,
                  config_.checkpoint.keep, state, trainer_.pieces());
  last_saved_ = progress.step;
  gpu_.begin(seconds_since_start(context_.trace));
  context_.log.info("step {}: saved in {}", progress.step, config_.checkpoint.directory);
}

}  // namespace dlrm
