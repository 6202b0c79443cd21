#pragma once
#include <memory>
#include <optional>

#include "dlrm/data/batch_source.h"
#include "dlrm/train/evaluation.h"
#include "dlrm/train/gpu_use.h"
#include "dlrm/train/process_usage.h"
#include "dlrm/train/progress.h"
#include "dlrm/train/run_directory.h"
#include "dlrm/train/step_ahead.h"
#include "dlrm/train/step_times.h"
#include "dlrm/train/stop_signal.h"
#include "dlrm/train/trainer.h"

#include "run_setup.h"

namespace dlrm {

/// What a finished loop leaves for the summary.
struct RunProgress {
  int64_t step = 0;          ///< steps done, resumed ones included
  int64_t samples = 0;       ///< trained on, resumed ones included
  int64_t samples_here = 0;  ///< trained on by this process
  double loss = 0;           ///< of the last step
  double wait_seconds = 0;   ///< steps waited for data
  double loop_seconds = 0;   ///< training alone
  double cpu_utilization = 0;
  int64_t exchanged_bytes = 0;     ///< by this rank's embeddings to other ranks, in steps
  int64_t dropped_ids = 0;         ///< of this rank's samples, until the end adds the others'
  int64_t recorded_steps = 0;      ///< launched as graphs
  std::optional<Utilisation> gpu;  ///< over the training loop, where there are figures
  bool stopped = false;
  std::optional<EvalResult> eval;
};

/// While it lives, no progress is expected of this rank: loading and saving take as long as they
/// take.
class WatchdogPause {
 public:
  explicit WatchdogPause(World& world) : world_(world) { world_.pause_watchdog(true); }
  ~WatchdogPause() { world_.pause_watchdog(false); }
  WatchdogPause(const WatchdogPause&) = delete;
  WatchdogPause& operator=(const WatchdogPause&) = delete;

 private:
  World& world_;
};

/// The loop of a run: steps, evaluations, checkpoints, metrics, stopping.
class TrainingRun {
 public:
  TrainingRun(Context& context, World& world, const RunConfig& config, const Plan& plan,
              Trainer& trainer, RunDirectory& directory, const BatchSource& train,
              const BatchSource* test, int threads);

  /// Trains from `progress.step` to `total` steps; `stop` ends it earlier.
  void train(RunProgress& progress, int64_t total, const StopSignal& stop);
  /// Evaluates and records; true where the target was reached.
  bool evaluate_now(RunProgress& progress, const StopSignal& stop);
  /// True where the weights of `progress` have been evaluated already.
  bool evaluated(const RunProgress& progress) const { return last_evaluated_ == progress.step; }
  void save(const RunProgress& progress);
  const StepTimes& times() const { return times_; }

 private:
  int64_t boundary_after(int64_t step, int64_t total) const;
  const Batch* next_of(Prefetcher& batches);
  /// The last step has its line, also where only an evaluation made it the last.
  void log_last();
  void record(RunProgress& progress, const StepResult& result, int64_t total, double seconds);

  Context& context_;
  World& world_;
  const RunConfig& config_;
  const Plan& plan_;
  Trainer& trainer_;
  RunDirectory& directory_;
  const BatchSource& train_;
  const BatchSource* test_;
  int threads_;
  ProgressLine line_;
  StepTimes times_;
  GpuUse gpu_;
  int64_t next_ = 0;           // the batch to be routed next
  double window_seconds_ = 0;  // since the last metrics line
  int64_t window_samples_ = 0;
  int64_t last_saved_ = -1;
  int64_t evaluation_bytes_ = 0;  // exchanged by evaluations since training began
  int64_t last_evaluated_ = -1;
  std::optional<StepMetrics> unlogged_;  // the last step's, where no line was due
};

}  // namespace dlrm
