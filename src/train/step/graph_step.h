#pragma once
#include <cstdint>

#include "step_graphs.h"
#include "training_step.h"

namespace dlrm {

/// Records steps whose sizes and addresses recur as graphs and replays them. The results are
/// bitwise the same, with less work for the host. Other steps run eagerly. If none of about the
/// first 50 steps recurs, all later steps run eagerly. The log reports that once.
class GraphStep {
 public:
  /// `routing_depth` is the number of batches routed ahead. The number of recordings depends on it.
  GraphStep(Context& context, ShardedEmbeddings& embeddings, TrainingStep& step, int routing_depth);

  /// See TrainingStep::train().
  void train(const PendingBatch& batch, const StepOptimizers& now);
  /// Steps replayed so far.
  int64_t replayed() const { return graphs_.launched() / 2; }
  /// Bytes that replayed steps sent, which ShardedEmbeddings::traffic() does not count.
  ShardedEmbeddings::Traffic replayed_traffic() const { return replayed_traffic_; }

 private:
  void train_recorded(const PendingBatch& batch, StepOptimizers now);
  void count_step();

  Context& context_;
  ShardedEmbeddings& embeddings_;
  TrainingStep& step_;
  StepGraphs graphs_;
  const int64_t trial_steps_;
  StepGraphs::Key key_;
  ShardedEmbeddings::Traffic replayed_traffic_;
  int64_t steps_ = 0;
  bool gave_up_ = false;
};

}  // namespace dlrm
