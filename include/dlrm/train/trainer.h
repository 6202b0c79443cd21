#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/data/batch.h"
#include "dlrm/device/upload.h"
#include "dlrm/embedding/sharded_embeddings.h"
#include "dlrm/train/checkpoint.h"
#include "dlrm/train/model.h"

namespace dlrm {

class StageClock;
class StepGraphs;

/// What one step gave, the same on every rank.
struct StepResult {
  double loss = 0;      ///< mean over the global batch, before its update
  int64_t samples = 0;  ///< of the global batch
  bool stop = false;    ///< some rank asked to stop
  int64_t dropped = 0;  ///< invalid ids left out of this rank's samples
};

/// One rank's share of the training of a model: a batch goes through route() and, some batches
/// later, through step() or infer(). Every rank makes the same calls.
class Trainer {
 public:
  /// `initialise` draws the initial weights; false where a checkpoint will fill them.
  Trainer(Context& context, Ops& ops, const RunConfig& config, const Plan& plan, bool initialise);
  ~Trainer();

  /// Draws all weights anew from the seed, optimizer state to its initial value.
  void initialise();
  /// From now on steps of recurring shapes are recorded as graphs and launched whole, where the
  /// device can, and where what ranks exchange does not pass through the host. The same bits, and
  /// less work of the host.
  void record_steps(bool yes);
  /// Steps that were launched whole.
  int64_t steps_launched() const;
  /// From now on the stages of training steps that a device works on are traced by its own clock;
  /// to be used without record_steps(). Nothing on a CPU, where the host's clock says the same.
  void time_stages();
  /// Adds what is still under way to the trace.
  void finish_stages();

  /// Sends a batch's ids to their owners and keeps its dense part until its turn.
  void route(const Batch& batch);
  int routed() const { return static_cast<int>(queue_.size()); }
  /// Trains on the oldest routed batch. `step` from 0. Throws run_error naming the first layer that
  /// was not finite where the loss is not; nothing is updated then.
  StepResult step(int64_t step, bool stop_requested) {
    start_step(step, stop_requested);
    return finish_step();
  }
  /// The same in two: a device's host has all of the step queued after the first, and time for
  /// other work before it waits for the loss in the second. On a device a loss that is not finite
  /// suppresses the update, and later ones, before the host knows.
  void start_step(int64_t step, bool stop_requested);
  StepResult finish_step();
  /// Appends the probabilities and labels of the oldest routed batch's local samples.
  void infer(std::vector<float>& probabilities, std::vector<float>& labels) {
    start_infer(labels);
    finish_infer(probabilities);
  }
  /// The same in two, as a step.
  void start_infer(std::vector<float>& labels);
  void finish_infer(std::vector<float>& probabilities);
  /// Forgets the routed batches.
  void drop_routed();

  /// Throws as the next step would where the last one's gradients were not finite: to be called
  /// before weights are saved, and after the last step. Collective.
  void check_last_update();

  /// Every tensor of the model on this rank, as checkpoints hold it.
  std::vector<TensorShard> pieces();
  /// To be called after a checkpoint filled the pieces.
  void weights_changed() { model_.parameters().refresh_copies(); }
  /// What each rank's operations chose by timing, for a checkpoint, and taking it up again before
  /// the first step, where the world is the same. Collective.
  std::vector<std::string> tuned_algorithms() const;
  void restore_tuned_algorithms(const std::vector<std::string>& by_rank);
  ShardedEmbeddings& embeddings() { return embeddings_; }
  /// What the embeddings have sent to other ranks, in steps launched whole as well.
  ShardedEmbeddings::Traffic traffic() const;
  bool on_cpu() const { return on_cpu_; }

 private:
  struct Waiting {  // the parts of a routed batch that stay on this rank
    explicit Waiting(Device& device) : lists(device, "dense features and labels") {}
    Upload lists;
    View<const float> dense, labels;  // on the device
    const float* host_labels = nullptr;
    int64_t global_size = 0;
    int64_t dropped = 0;
    int64_t local_size() const { return static_cast<int64_t>(labels.size()); }
  };

  /// A step's optimizer numbers.
  struct Numbers {
    int64_t step = 0;
    OptimizerStep dense;
    double sparse_rate = 0;
    const StepHyperparams* sparse_hyperparams = nullptr;
  };
  Numbers numbers_of(int64_t step) const;

  class Stage;
  enum Status : size_t { kLoss, kStop, kBadIds, kSkipUpdate, kStatusSize };
  static constexpr int64_t kNoFeature = -1;

  void initialise_dense();
  void forward(Waiting& batch);
  void run_forward(Waiting& batch);
  void run_backward(const Numbers& now);
  void run_recorded(Numbers& now, Waiting& batch);
  void finish_oldest();
  void give_up_if_none_recurs();
  void send_status();
  void finish_status();
  void prepare_ids();
  std::string bad_id() const;
  std::pair<std::string, size_t> first_text(const std::string& mine);
  [[noreturn]] void throw_bad_id();
  void throw_if_not_finite(double loss);
  [[noreturn]] void throw_update_skipped();

  Context& context_;
  Ops& ops_;
  const RunConfig& config_;
  const bool on_cpu_;
  std::unique_ptr<Stream> copies_;  // dense features and labels go to the device on it
  ShardedEmbeddings embeddings_;
  Model model_;
  Progress progress_;
  std::deque<Waiting> queue_;
  std::deque<Waiting> spare_;
  MatrixView<const float> pooled_;
  std::vector<double> status_;
  Pending status_pending_;           // after what it writes: ends first
  Array<int64_t> bad_id_;            // feature, sample, id
  HostArray<int64_t> known_bad_id_;  // ... as the host last saw it
  StepResult result_;
  std::unique_ptr<StepGraphs> graphs_;
  std::vector<uint64_t> key_;
  std::unique_ptr<StageClock> clock_;
  ShardedEmbeddings::Traffic launched_traffic_;
  int64_t steps_tried_ = 0;     // since record_steps()
  bool hopeless_ = false;       // none of them recurs
  int64_t batch_at_hand_ = -1;  // global size of the batch that the model's matrices view
  bool inferring_ = false;
  size_t inferred_ = 0;  // samples between start_infer() and finish_infer()
};

}  // namespace dlrm
