#pragma once
#include <optional>

#include "dlrm/comm/context.h"
#include "dlrm/config/run_config.h"
#include "dlrm/train/progress.h"
#include "dlrm/train/run_directory.h"
#include "dlrm/train/step_times.h"

#include "loss_watch.h"
#include "run_progress.h"

namespace dlrm {

/// The reports on a run's steps: lines of metrics.jsonl, the progress line, and step times.
class StepReports {
 public:
  StepReports(Context& context, const RunConfig& config, RunDirectory& directory,
              int64_t steps_per_epoch);

  /// Reports the last step of `progress`, which took `seconds`, out of `total` steps.
  void step(const RunProgress& progress, int64_t samples, double seconds, int64_t total);
  /// Shows the progress of an evaluation of `total` batches.
  void evaluating(int64_t step, int64_t batches, int64_t samples, int64_t total) {
    line_.evaluating({step, batches, total, samples});
  }
  /// `split`: "valid" or "test".
  void evaluation(const Evaluation& evaluation, const char* split);
  void best(const Evaluation& evaluation) const;
  void slices(const SlicedResult& sliced);
  /// Logs the last step's metrics if it had no line yet.
  void finish();
  /// Removes the progress line from the terminal. Call it before other text is printed.
  void clear_line() { line_.clear(); }
  const StepTimes& times() const { return times_; }

 private:
  double epoch(int64_t step) const;
  void say_tasks(const EvalResult& result) const;
  void watch_loss(const RunProgress& progress, int64_t samples);

  Context& context_;
  const RunConfig& config_;
  RunDirectory& directory_;
  const double steps_per_epoch_;
  ProgressLine line_;
  StepTimes times_;
  LossWatch losses_;
  double window_seconds_ = 0;  // since the last line of metrics
  int64_t window_samples_ = 0;
  CacheCounters cache_logged_;           // up to the last line of metrics
  std::optional<StepMetrics> unlogged_;  // the last step's metrics if they have no line yet
};

}  // namespace dlrm
