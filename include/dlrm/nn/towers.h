#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/nn/mlp.h"

namespace dlrm {

/// The MLPs from Z, the interaction's output, to logits: one for each label (ModelConfig::towers).
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
  struct Part {
    double weight = 1;
    std::unique_ptr<Mlp> mlp;
    Buffer dlogits;
  };
  std::vector<Part> towers_;
  std::vector<Matrix> logits_, dlogits_;
};

}  // namespace dlrm
