#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/nn/interaction.h"
#include "dlrm/nn/linear_part.h"
#include "dlrm/nn/mixture.h"
#include "dlrm/nn/mlp.h"
#include "dlrm/nn/parameters.h"

namespace dlrm {

class LossReadback;
class ProbabilityReadback;

/// The data-parallel part of a model: bottom MLP, interaction, towers (top MLP), loss. A tower for
/// each label (ModelConfig::towers) leads from Z, the interaction's output, to its logits, over Z
/// or over a mixture of experts. The model's inputs are device memory. `progress` is called between
/// layers.
class Model {
 public:
  /// `joined_gradients`: see Parameters::allocate().
  Model(Context& context, Ops& ops, const RunConfig& config, int64_t joined_gradients = 0);
  ~Model();

  /// Computes X [b, D] from dense features [b, n], which backward passes read too.
  /// `training`: the samples of a training step, for dropout. Null in a prediction.
  void bottom(View<const float> dense, int64_t b, const Progress& progress,
              const DropoutPlace* training = nullptr);
  /// Memory for E and for dE of any batch, [largest local batch, W] in the compute type: where the
  /// interaction has them, or of its own, which the first call allocates.
  Matrix place_of_embeddings();
  Matrix place_of_gradients();
  /// Computes the towers' input from X and e [b, W]. With a linear part, the last columns of E and
  /// dE are its weights, one for each feature. If e is of another type than the compute
  /// type, it is converted.
  void interact(const Matrix& e, const Progress& progress);
  /// Computes the logits [b, 1] of each label. `training` as in bottom().
  void top(const Progress& progress, const DropoutPlace* training = nullptr);
  /// Computes the weighted BCE summed over the local samples and over the labels, each with its
  /// weight. Its gradient is scaled for the mean over `global_size` samples, whatever their weights
  /// and however many lack a label. On a GPU, a logit that is not finite sets the flag that skips
  /// the updates of this step and of later ones.
  void loss(const Targets& targets, int64_t global_size);
  /// Marks the point of the stream that loss_sum() waits for. Call it after loss(), or a replay of
  /// it, was queued.
  void mark_loss();
  /// Waits for the loss and returns its sum over the local samples.
  double loss_sum(const Progress& progress);
  /// True if the device had skipped updates by the time of loss_sum(), because a value was not
  /// finite.
  bool update_skipped() const;
  /// Waits for all queued work. Returns true if the device skips updates after it.
  bool update_skipped_after_all_work();
  /// Starts to compute σ(logits) of the local samples, for an evaluation.
  void start_probabilities();
  /// Waits for the result and copies it to the host's memory. p [labels, b].
  void finish_probabilities(View<float> p, const Progress& progress);

  /// Fills the columns of the linear part, if there is one, in de [b, W], and computes the
  /// gradients of its weights of dense features. Call it before backward_top().
  void backward_linear(const Matrix& de);
  /// Computes dZ, the sum over the labels, which is rounded once a label.
  void backward_top(const Progress& progress);
  /// Fills the other columns of de, in the compute type, and the gradient of X.
  void backward_interaction(const Matrix& de, const Progress& progress);
  void backward_bottom(const Progress& progress);

  Parameters& parameters() { return parameters_; }
  const Parameters& parameters() const { return parameters_; }
  /// The first part whose output is not finite in the last forward pass: the path of a layer, or
  /// "embeddings". If all are finite, on a device the first tensor with a bad value or gradient.
  /// Empty if there is none. Waits for the device.
  std::optional<std::string> first_bad_output();

 private:
  /// Gradients and inputs of the compute type, for the largest local batch.
  struct Buffers {
    Buffer input, dx, dz, e, de;
  };
  /// The MLP of a label.
  struct LabelTower {
    double weight = 1;  ///< of its loss
    std::unique_ptr<Mlp> mlp;
    Buffer dlogits;  ///< of its own, because gradients of weights may be deferred
  };
  /// Results of the last forward pass.
  struct Outputs {
    Matrix input, x, e, z;
  };

  void add_towers(const ModelConfig& model, const HiddenLayers& hidden);
  Buffer make_buffer(int64_t columns, const char* what) const;
  /// Otherwise the layers read the dense features where the caller has them.
  bool converts_features() const {
    return compute_ != DType::kFloat32 || !context_.device.host_visible_memory();
  }
  /// `given`, or a place in `buffer`, which is allocated first.
  Matrix place_of_vectors(const Matrix& given, Buffer& buffer, const char* what);
  /// A matrix of the compute type in `buffer`.
  Matrix in(const Buffer& buffer, int64_t rows, int64_t columns) const;
  /// The columns of E or dE that the interaction has, and those of the linear part.
  Matrix of_interaction(const Matrix& e) const {
    return e.columns(0, embedding_width_ - linear_width_);
  }
  Matrix of_linear_part(const Matrix& e) const {
    return e.columns(embedding_width_ - linear_width_, linear_width_);
  }
  bool is_finite(const Matrix& values);

  Context& context_;
  Ops& ops_;
  const int64_t max_batch_;
  const DType compute_;
  const int64_t embedding_width_;
  const int64_t linear_width_;  // of the linear part, the last columns of E
  Parameters parameters_;
  std::unique_ptr<Mlp> bottom_;
  std::unique_ptr<Interaction> interaction_;
  std::unique_ptr<Mixture> mixture_;  // or null
  std::vector<LabelTower> towers_;
  std::vector<Matrix> logits_, dlogits_;  // by label, [b, 1], of the last forward pass
  std::unique_ptr<LinearPart> linear_;    // or null
  Buffers buffers_;
  Outputs last_;
  std::unique_ptr<LossReadback> loss_;
  std::unique_ptr<ProbabilityReadback> probabilities_;
};

}  // namespace dlrm
