#include "step_reports.h"

#include "dlrm/core/printable.h"

namespace dlrm {
namespace {

std::string text_of(const EvalResult& result) {
  return fmt::format("AUC {}{}, log loss {:.5f}, accuracy {:.4f}, calibration {:.3f}",
                     result.auc ? fmt::format("{:.5f}", *result.auc) : "none (one class)",
                     result.gauc ? fmt::format(", GAUC {:.5f}", *result.gauc) : "", result.log_loss,
                     result.accuracy, result.calibration);
}

}  // namespace

StepReports::StepReports(Context& context, const RunConfig& config, RunDirectory& directory,
                         int64_t steps_per_epoch)
    : context_(context),
      config_(config),
      directory_(directory),
      steps_per_epoch_(static_cast<double>(steps_per_epoch)),
      line_(context.log) {}

double StepReports::epoch(int64_t step) const {
  return static_cast<double>(step) / steps_per_epoch_;
}

void StepReports::step(const RunProgress& progress, int64_t samples, double seconds,
                       int64_t total) {
  times_.add(seconds);
  window_seconds_ += seconds;
  window_samples_ += samples;
  const double rate = static_cast<double>(window_samples_) / window_seconds_;
  const bool last = progress.step == total || progress.stopped;
  const bool logged =
      progress.step == 1 || is_due(progress.step, config_.output.metrics_every) || last;
  const double lr = config_.train.dense_optimizer.lr * config_.train.lr_factor(progress.step - 1);
  unlogged_ =
      StepMetrics{progress.step, progress.samples, progress.loss, lr, rate, epoch(progress.step)};
  if (progress.cache) unlogged_->cache = *progress.cache - cache_logged_;
  if (logged) {
    finish();
    if (progress.cache) cache_logged_ = *progress.cache;
    window_seconds_ = 0;
    window_samples_ = 0;
  }
  line_.update({progress.step, total, epoch(progress.step), progress.loss, rate}, logged);
  watch_loss(progress, samples);
}

/// Warns if training has become unstable.
void StepReports::watch_loss(const RunProgress& progress, int64_t samples) {
  const auto rise = losses_.add(progress.loss, samples);
  if (!rise || context_.comm.rank() != 0) return;
  clear_line();
  context_.log.warn(
      "step {}: the mean loss rose from {:.4f} to {:.4f}: training is unstable with batches of {}; "
      "a smaller train.global_batch_size, smaller learning rates or "
      "train.lr_schedule.warmup_steps may help",
      progress.step, rise->from, rise->to, config_.train.global_batch_size);
}

void StepReports::finish() {
  if (unlogged_) directory_.log(*unlogged_);
  unlogged_.reset();
}

void StepReports::evaluation(const Evaluation& evaluation, const char* split) {
  directory_.log(evaluation, epoch(evaluation.step), split);
  context_.log.info("step {}: {} {}", evaluation.step, split, text_of(evaluation.result));
  say_tasks(evaluation.result);
}

void StepReports::say_tasks(const EvalResult& result) const {
  for (const TaskResult& task : result.tasks) {
    context_.log.info("  task {}: {} samples, {}", task.name, task.result.samples,
                      text_of(task.result));
  }
}

void StepReports::best(const Evaluation& evaluation) const {
  context_.log.info("the best evaluation: step {}: {}", evaluation.step,
                    text_of(evaluation.result));
  say_tasks(evaluation.result);
}

void StepReports::slices(const SlicedResult& sliced) {
  for (const EvalSlice& slice : sliced.slices) {
    const std::string id = slice.id ? std::to_string(*slice.id) : "none";
    const std::string value = slice.value ? fmt::format(" '{}'", printable(*slice.value, 60)) : "";
    context_.log.info("  {} {}{}: {} samples, {}", sliced.feature, id, value, slice.result.samples,
                      text_of(slice.result));
  }
  if (sliced.left_out > 0) {
    context_.log.info("  {} more ids of {}, with fewer samples", sliced.left_out, sliced.feature);
  }
}

}  // namespace dlrm
