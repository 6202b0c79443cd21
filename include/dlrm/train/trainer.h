#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/data/batch.h"
#include "dlrm/embedding/sharded_embeddings.h"
#include "dlrm/train/checkpoint.h"
#include "dlrm/train/model.h"

namespace dlrm {

/// What one step gave, the same on every rank.
struct StepResult {
  double loss = 0;      ///< mean over the global batch, before its update
  int64_t samples = 0;  ///< of the global batch
  bool stop = false;    ///< some rank asked to stop
};

/// One rank's share of the training of a model: a batch goes through route() and, some batches
/// later, through step() or infer(). Every rank makes the same calls.
class Trainer {
 public:
  /// `initialise` draws the initial weights; false where a checkpoint will fill them.
  Trainer(Context& context, Ops& ops, const RunConfig& config, const Plan& plan, bool initialise);

  /// Sends a batch's ids to their owners and keeps its dense part until its turn.
  void route(const Batch& batch);
  int routed() const { return static_cast<int>(queue_.size()); }
  /// Trains on the oldest routed batch. `step` from 0. Throws run_error naming the first layer that
  /// was not finite where the loss is not; nothing is updated then.
  StepResult step(int64_t step, bool stop_requested);
  /// Appends the probabilities and labels of the oldest routed batch's local samples.
  void infer(std::vector<float>& probabilities, std::vector<float>& labels);
  /// Forgets the routed batches.
  void drop_routed();

  /// Every tensor of the model on this rank, as checkpoints hold it.
  std::vector<TensorPiece> pieces();
  /// To be called after a checkpoint filled the pieces.
  void weights_changed() { model_.parameters().refresh_copies(); }
  ShardedEmbeddings& embeddings() { return embeddings_; }

 private:
  struct Waiting {  // the parts of a routed batch that stay on this rank
    std::vector<float> dense, labels;
    int64_t global_size = 0;
    int64_t local_size() const { return static_cast<int64_t>(labels.size()); }
  };

  void forward(const Waiting& batch);
  void finish_oldest();
  void throw_if_not_finite(double loss);

  Context& context_;
  Ops& ops_;
  const RunConfig& config_;
  ShardedEmbeddings embeddings_;
  Model model_;
  Progress progress_;
  std::deque<Waiting> queue_;
  std::vector<Waiting> spare_;
  MatrixView<const float> pooled_;
  Pending status_pending_;
  std::vector<double> status_;
};

}  // namespace dlrm
