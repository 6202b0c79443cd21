#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/core/targets.h"
#include "dlrm/data/batch.h"
#include "dlrm/embedding/sharded_embeddings.h"
#include "dlrm/train/checkpoint.h"
#include "dlrm/train/model.h"

namespace dlrm {

class BadIdReport;
class BatchQueue;
class GraphStep;
class StageClock;
class StepStatus;
struct LaunchHalf;
struct PendingBatch;
struct StepOptimizers;

/// The result of one step. All fields but `dropped` are the same on every rank.
struct StepResult {
  double loss = 0;      ///< mean over the global batch, before its update
  int64_t samples = 0;  ///< of the global batch
  bool stop = false;    ///< a rank requested to stop
  int64_t dropped = 0;  ///< invalid ids left out of this rank's samples
};

/// Returns the next batch of a loop, or null if no batch may be routed now. The batch must stay
/// valid until the next call.
using NextBatch = std::function<const Batch*()>;

/// One rank's part in training and evaluating a model. Each batch is passed to route(). step() or
/// infer() takes the oldest routed batch. All ranks make the same calls in the same order.
class Trainer {
 public:
  /// `initialise` draws the initial weights. Pass false if a checkpoint will fill them.
  Trainer(Context& context, Ops& ops, const RunConfig& config, const Plan& plan, bool initialise);
  ~Trainer();

  /// Draws all weights from the seed again and resets optimizer state.
  void initialise();
  /// Whether steps of recurring shapes are recorded as graphs and replayed, if the device and the
  /// communicator can. The results are bitwise the same.
  void use_graphs(bool yes);
  /// Steps that were replayed.
  int64_t steps_replayed() const;
  /// From now on the device's clock times the stages of training steps. Do not combine it with
  /// use_graphs(). No effect on a CPU, because the host's clock times them there.
  void time_stages();
  /// Waits for the queued stages and adds them to the trace.
  void finish_stages();

  /// Sends a batch's ids to the owners of their rows, and keeps its dense part until its step.
  void route(const Batch& batch);
  /// Batches routed and neither trained on nor evaluated yet.
  int routed() const;
  /// Discards the routed batches.
  void drop_routed();

  /// Trains on the oldest routed batch. `step` counts from 0. If `next` is given, it first routes
  /// batches until as many as the config asks for follow this one. If the device runs
  /// asynchronously, the host routes the next one while the device computes. If the loss is not
  /// finite, throws run_error naming the first layer whose output is not finite. On a GPU, also
  /// throws run_error if the update of the step before was skipped, and on a CPU if that update
  /// stored a value that is not finite (see check_last_update()). Throws usage_error for a bad id.
  /// No weight changes if it throws.
  StepResult step(int64_t step, bool stop_requested, const NextBatch& next = {});

  /// Appends the probabilities and targets of the oldest routed batch's local samples, label by
  /// label. `next` as in step().
  void infer(std::vector<float>& probabilities, TargetList& targets, const NextBatch& next = {});

  /// On a GPU, throws run_error if the last update was skipped because a gradient was not finite.
  /// On a CPU, throws run_error naming the first weight or state that the last update made not
  /// finite. The next step() would throw the same error. Call it before weights are saved and after
  /// the last step. Collective.
  void check_last_update();

  /// The shards of all tensors on this rank, as checkpoints hold them.
  std::vector<TensorShard> shards();
  /// Refreshes rounded copies of weights. Call it after a checkpoint has filled the shards.
  void weights_changed() { model_.parameters().refresh_copies(); }
  /// The algorithms that each rank's libraries chose by timing, for a checkpoint. Collective.
  std::vector<std::string> tuned_algorithms() const;
  /// Restores the algorithms if the world size is the same. Call it before the first step.
  void restore_tuned_algorithms(const std::vector<std::string>& by_rank);
  ShardedEmbeddings& embeddings() { return embeddings_; }
  /// Bytes that the embeddings have sent to other ranks, in replayed steps too.
  ShardedEmbeddings::Traffic traffic() const;

 private:
  void initialise_dense();
  void route_ahead(const NextBatch& next);
  void end_batch();
  /// The stages of a step on the oldest routed batch, whose dense part is `batch`: the figure of
  /// docs/architecture.md, "The life of a batch". src/plan/simulate/step_graph.cpp has the same
  /// order, to predict a step's time. On a device that runs asynchronously the work is queued and
  /// the status is not sent yet. `launch` runs or replays a half. Null: both are run at once.
  void train(const PendingBatch& batch, const StepOptimizers& now, const LaunchHalf& launch);
  /// Up to the logits. `clock`: see stage(). `training`: the step of a training batch, or null.
  void forward(const PendingBatch& batch, StageClock* clock, const OptimizerStep* training);
  void prepare_ids();
  void update_after_gradients_are_summed(const StepOptimizers& now, StageClock* clock);
  void update_while_gradients_are_summed(const StepOptimizers& now, StageClock* clock);
  /// `clock` is null unless a GPU's stages are timed.
  template <class Work>
  void stage(StageClock* clock, const char* name, const Work& work);

  Context& context_;
  Ops& ops_;
  const RunConfig& config_;
  ShardedEmbeddings embeddings_;
  Model model_;
  std::unique_ptr<BatchQueue> queue_;
  std::unique_ptr<BadIdReport> bad_ids_;
  std::unique_ptr<StepStatus> status_;
  const bool asynchronous_;   // the device's calls return before their work is done
  const Progress progress_;   // advances this rank's exchanges while it computes or waits
  int64_t viewed_size_ = -1;  // of the last batch of which the host ran the forward pass
  std::unique_ptr<StageClock> clock_;
  std::unique_ptr<GraphStep> graphs_;  // null: the host issues every operation in every step
};

}  // namespace dlrm
