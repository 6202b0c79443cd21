#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/device/transfer.h"
#include "dlrm/nn/interaction.h"
#include "dlrm/nn/mlp.h"
#include "dlrm/nn/parameters.h"

namespace dlrm {

/// The data-parallel part of a DLRM as a config states it: bottom MLP, interaction, top MLP, loss.
class Model {
 public:
  Model(Context& context, Ops& ops, const RunConfig& config);

  /// X [b, D] from dense features [b, n]. These and labels are in the device's memory.
  void bottom(View<const float> dense, int64_t b, const Progress& progress);
  void interact(MatrixView<const float> e, const Progress& progress);
  void top(const Progress& progress);
  /// BCE of the local samples; the gradient is scaled for the mean over `global_size`. On a device
  /// a logit that is not finite suppresses the update of this step and of later ones.
  void loss(View<const float> labels, int64_t global_size);
  /// loss() is queued, or a recording of it: loss_sum() waits for what the stream holds now.
  void loss_is_queued() { context_.stream.record(*loss_is_known_); }
  /// Its sum, once it is known. Where several ranks wait for one another, `progress` is called
  /// meanwhile.
  double loss_sum(const Progress& progress);
  /// Once loss_sum() is known: whether something that is not finite suppresses updates on a device.
  bool skips_update() const { return known_flag_[0] != 0; }
  /// The same of all that has been queued; waits for it.
  bool skips_update_now();
  /// Queues σ(logit) of the local samples ...
  void start_probabilities();
  /// ... and brings them into the host's memory, once all that was queued before is done.
  void finish_probabilities(View<float> p, const Progress& progress);

  void backward_top(const Progress& progress);
  /// Fills de [b, W] and the gradient of X.
  void backward_interaction(MatrixView<float> de, const Progress& progress);
  void backward_bottom(const Progress& progress);

  Parameters& parameters() { return parameters_; }
  const Parameters& parameters() const { return parameters_; }
  /// Path of the first layer of the last forward whose output is not finite, if any.
  std::optional<std::string> first_non_finite(MatrixView<const float> e);

 private:
  void wait(Event& event, const Progress& progress);
  /// A matrix of the compute type in one of the buffers.
  Matrix in(const Buffer& buffer, int64_t rows, int64_t columns) const;

  Context& context_;
  Ops& ops_;
  const bool alone_;
  DType compute_;
  Parameters parameters_;
  std::unique_ptr<Mlp> bottom_;
  std::unique_ptr<Interaction> interaction_;
  std::unique_ptr<Mlp> top_;
  Buffer input_, dx_, dz_, dlogits_;
  Array<double> loss_;
  HostArray<double> known_loss_;
  HostArray<float> known_flag_;  // parameters_.skip_update_flag() as the host last saw it
  std::unique_ptr<Event> loss_is_known_, probabilities_are_known_;
  Array<float> flag_, probabilities_;
  Transfer transfer_;
  Matrix x_, z_, logits_;
  MatrixView<const float> e_;
};

}  // namespace dlrm
