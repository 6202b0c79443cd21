#pragma once
#include "dlrm/core/process_usage.h"
#include "dlrm/data/batch_source.h"
#include "dlrm/train/evaluation.h"
#include "dlrm/train/evaluation_steps.h"
#include "dlrm/train/gpu_use.h"
#include "dlrm/train/run_directory.h"
#include "dlrm/train/stop_signal.h"
#include "dlrm/train/trainer.h"

#include "job_locks.h"
#include "run_setup.h"
#include "train/reports/run_progress.h"
#include "train/reports/step_reports.h"

namespace dlrm {

/// While an object exists, the watchdog expects no progress of this rank. Loading and saving have
/// no time limit.
class WatchdogPause {
 public:
  explicit WatchdogPause(World& world) : world_(world) { world_.pause_watchdog(true); }
  ~WatchdogPause() { world_.pause_watchdog(false); }
  WatchdogPause(const WatchdogPause&) = delete;
  WatchdogPause& operator=(const WatchdogPause&) = delete;

 private:
  World& world_;
};

/// Whether the evaluations so far end training. Logs why if `log` is given.
bool is_enough(const EvaluationHistory& evaluations, const EvalConfig& config,
               const Log* log = nullptr);

/// What a run works with.
struct RunParts {
  Context& context;
  World& world;
  JobLocks& locks;
  const RunConfig& config;
  const Plan& plan;
  Trainer& trainer;
  RunDirectory& directory;
  const BatchSource& train;
  const BatchSource* valid;  ///< null: evaluations during training use `test`
  const BatchSource* test;   ///< or null
  EvaluationHistory& evaluations;
  int threads;

  /// What evaluations during training use. Null: there are none.
  const BatchSource* during() const { return valid ? valid : test; }
};

/// The loop of a run: steps, evaluations, checkpoints, stopping. train() saves the checkpoints of
/// every_steps and keep_best. run_training() saves those of at_end and of a request to stop.
class TrainingRun {
 public:
  explicit TrainingRun(const RunParts& parts);

  /// Trains from `progress.step` to `total` steps, until `stop` is requested, or until an
  /// evaluation ends training (eval.stop_at_auc, eval.patience).
  void train(RunProgress& progress, int64_t total, const StopSignal& stop);
  /// Evaluates RunParts::during() and reports, unless these weights have been evaluated. Returns
  /// true if the result is the best so far. `take` gets the predictions.
  bool evaluate_now(RunProgress& progress, const StopSignal& stop,
                    const TakePredictions& take = {});
  /// Gives the predictions of RunParts::test to `take`, and reports nothing.
  void predict(RunProgress& progress, const StopSignal& stop, const TakePredictions& take);
  /// Keeps these weights as the best if checkpoint.keep_best asks for that.
  void keep_best(const RunProgress& progress);
  /// Logs the best evaluation, if it is not the last.
  void say_best() const;
  /// With validation data: evaluates the test data, of which nothing is chosen, and reports. The
  /// weights are the best ones if keep_best has kept them, and replace those of the trainer.
  /// Otherwise they are the last ones.
  void test_best(RunProgress& progress, const StopSignal& stop);
  /// Saves a checkpoint. If that fails, a warning says so, and training can go on: the last
  /// checkpoint stands, and the next call tries again. Throws NotFinite if there is nothing worth
  /// saving.
  void save(const RunProgress& progress);
  /// Why the last call of save() failed. Empty if it did not. The same on every rank.
  const std::string& unsaved() const { return unsaved_; }
  /// Calls of save() that failed.
  int64_t failed_saves() const { return failed_saves_; }
  const StepTimes& times() const { return reports_.times(); }
  /// Of the last evaluation.
  const SlicedResult& slices() const { return slices_; }
  /// Of test_best().
  const std::optional<Evaluation>& tested() const { return tested_; }
  const SlicedResult& test_slices() const { return test_slices_; }

 private:
  void keep_hot_rows(int64_t step, int64_t total, const StopSignal& stop);
  template <class Write>
  void write_or_go_on(int64_t step, const Write& write);
  void evaluate_if_due(RunProgress& progress, int64_t total, const StopSignal& stop);
  std::optional<EvalResult> evaluate_source(const BatchSource& source, RunProgress& progress,
                                            const StopSignal& stop, const TakePredictions& take,
                                            SlicedResult& slices);
  bool load_best(int64_t step);
  int64_t boundary_after(int64_t step, int64_t total) const;
  void restart_gpu_figures();
  /// By this rank, since the start.
  SentBytes sent_bytes() const;

  const RunParts parts_;
  Context& context_;
  const RunConfig& config_;
  Trainer& trainer_;
  EvaluationHistory& evaluations_;
  StepReports reports_;
  GpuUse gpu_;
  const EvaluationSteps due_;
  SlicedResult slices_;
  std::optional<Evaluation> tested_;
  SlicedResult test_slices_;
  SentBytes evaluations_sent_;  // since training began
  int64_t last_saved_ = -1;
  std::string unsaved_;
  int64_t failed_saves_ = 0;
};

}  // namespace dlrm
