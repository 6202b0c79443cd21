#pragma once
#include <cstdint>
#include <functional>

#include "batch_queue.h"
#include "step_graphs.h"

namespace dlrm {

/// The optimizers' constants for one step. Learning rates include the schedule's factor.
struct StepOptimizers {
  OptimizerStep dense, sparse;
};

/// Runs a half's work, or replays a recording of it.
struct LaunchHalf : std::function<void(StepHalf half, const std::function<void()>& work)> {
  using function::function;
};
/// Trainer::train().
using TrainStep = std::function<void(const PendingBatch& batch, const StepOptimizers& now,
                                     const LaunchHalf& launch)>;

/// Records steps whose sizes and addresses recur as graphs and replays them. The results are
/// bitwise the same, with less work for the host. Other steps run eagerly. If none of about the
/// first 50 steps recurs, all later steps run eagerly. The log reports that once.
class GraphStep {
 public:
  /// `routing_depth` is the number of batches routed ahead. The number of recordings depends on it.
  GraphStep(Context& context, ShardedEmbeddings& embeddings, int routing_depth, TrainStep step);

  /// `views_fit`: the last forward pass that the host ran was for a batch of this size. The model's
  /// views then fit a replay.
  void train(const PendingBatch& batch, const StepOptimizers& now, bool views_fit);
  /// Steps replayed so far.
  int64_t replayed() const { return graphs_.launched() / 2; }
  /// Bytes that replayed steps sent, which ShardedEmbeddings::traffic() does not count.
  ShardedEmbeddings::Traffic replayed_traffic() const { return replayed_traffic_; }

 private:
  void train_recorded(const PendingBatch& batch, StepOptimizers now);
  void count_step();

  Context& context_;
  ShardedEmbeddings& embeddings_;
  const TrainStep step_;
  StepGraphs graphs_;
  const int64_t trial_steps_;
  StepGraphs::Key key_;
  ShardedEmbeddings::Traffic replayed_traffic_;
  int64_t steps_ = 0;
  bool gave_up_ = false;
};

}  // namespace dlrm
