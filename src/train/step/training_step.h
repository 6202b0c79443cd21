#pragma once
#include <functional>

#include "dlrm/embedding/sharded_embeddings.h"
#include "dlrm/train/model.h"

#include "batch_queue.h"
#include "stage_clock.h"
#include "step_status.h"
#include "train/reports/bad_id_report.h"

namespace dlrm {

/// The optimizers' constants for one step. Learning rates include the schedule's factor.
struct StepOptimizers {
  OptimizerStep dense, sparse;
};

/// The halves in which a step is launched. The loss is known after the first.
enum class StepHalf : uint8_t { kForward, kBackward };
/// Runs a half's work, or replays a recording of it.
using LaunchHalf = std::function<void(StepHalf half, const std::function<void()>& work)>;

/// One step on one rank, stage by stage: the figure of docs/architecture.md, "The life of a batch".
/// src/plan/simulate/step_graph.cpp has the same order, to predict a step's time.
class TrainingStep {
 public:
  TrainingStep(Context& context, ShardedEmbeddings& embeddings, Model& model, StepStatus& status,
               BadIdReport& bad_ids);

  /// Trains on the oldest routed batch, whose dense part is `batch`. On a device that runs
  /// asynchronously the work is queued and the status is not sent yet. Without `launch` the work of
  /// both halves is done at once.
  void train(const PendingBatch& batch, const StepOptimizers& now, const LaunchHalf& launch = {});
  /// Runs only the forward pass, up to the logits.
  void infer(const PendingBatch& batch) { forward(batch, nullptr, nullptr); }

  /// Advances this rank's exchanges while it computes or waits.
  const Progress& progress() const { return progress_; }
  /// True if the last forward pass that the host ran was for a batch of this size. The model's
  /// views then fit a replay.
  bool views_fit(int64_t global_size) const { return viewed_size_ == global_size; }

  /// From now on training stages are timed by the device's clock. No effect on a CPU.
  void time_stages();
  /// Adds the stages that the device has passed to the trace.
  void collect_stages();
  /// Waits for the queued stages and adds them.
  void finish_stages();

 private:
  /// `training`: the step of a training batch, or null.
  void forward(const PendingBatch& batch, StageClock* clock, const OptimizerStep* training);
  void prepare_ids();
  void update_after_gradients_are_summed(const StepOptimizers& now, StageClock* clock);
  void update_while_gradients_are_summed(const StepOptimizers& now, StageClock* clock);
  template <class Work>
  void stage(StageClock* clock, const char* name, const Work& work);

  Context& context_;
  ShardedEmbeddings& embeddings_;
  Model& model_;
  StepStatus& status_;
  BadIdReport& bad_ids_;
  const bool asynchronous_;  // the device's calls return before their work is done
  const Progress progress_;
  std::unique_ptr<StageClock> clock_;
  int64_t viewed_size_ = -1;
};

}  // namespace dlrm
