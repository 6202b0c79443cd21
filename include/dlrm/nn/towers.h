#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/nn/mixture.h"
#include "dlrm/nn/mlp.h"

namespace dlrm {

/// What leads from Z, the interaction's output, to logits: a tower, an MLP, for each label
/// (ModelConfig::towers), over Z or over a mixture of experts.
class Towers {
 public:
  Towers(Context& context, Ops& ops, Parameters& parameters, const ModelConfig& model,
         int64_t inputs, DType compute, int64_t max_batch, const HiddenLayers& hidden);

  size_t count() const { return towers_.size(); }
  double weight(size_t label) const { return towers_[label].weight; }
  /// Computes the logits of every label from z [b, inputs], which must stay until backward.
  /// `training` as in Mlp::forward().
  void forward(Matrix z, const Progress& progress, const DropoutPlace* training);
  /// Of each label in the last forward, [b, 1].
  const std::vector<Matrix>& logits() const { return logits_; }
  /// Where their gradients are written before backward(), [b, 1]. Each label has memory of its own,
  /// because gradients of weights may be deferred.
  const std::vector<Matrix>& dlogits() const { return dlogits_; }
  /// Computes the gradients of the parameters, and dz [b, inputs], the sum over the labels, which
  /// is rounded once a label.
  void backward(Matrix dz, const Progress& progress);
  /// As Mlp::activations().
  std::vector<std::pair<std::string, Matrix>> activations() const;

 private:
  Matrix input_of(size_t label, Matrix z) const { return mixture_ ? mixture_->input_of(label) : z; }

  struct Part {
    double weight = 1;
    std::unique_ptr<Mlp> mlp;
    Buffer dlogits;
  };
  std::unique_ptr<Mixture> mixture_;  // or null
  std::vector<Part> towers_;
  std::vector<Matrix> logits_, dlogits_;
};

}  // namespace dlrm
