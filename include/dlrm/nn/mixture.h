#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/nn/mlp.h"
#include "dlrm/ops/mixture.h"

namespace dlrm {

/// Experts, MLPs over Z, and gates, a linear layer without bias whose softmax over the experts
/// gives the shares of which each task's tower sees them (ops/mixture.h). All matrices are in the
/// compute type.
class Mixture {
 public:
  /// Adds the tensors of /experts/<e> (Mlp), and /gates/weight [tasks·experts, inputs], whose row
  /// t·experts + e is that of task t and expert e. `hidden` is for the experts' hidden layers.
  Mixture(Context& context, Ops& ops, Parameters& parameters, const ModelConfig& model,
          int64_t inputs, DType compute, int64_t max_batch, const HiddenLayers& hidden);

  /// Computes the towers' inputs from z [b, inputs], which must stay until backward.
  void forward(Matrix z, const Progress& progress, const DropoutPlace* training);
  /// The input of a task's tower in the last forward, [b, width of an expert's output].
  Matrix input_of(size_t task) const { return part(y_, task); }
  /// Where its gradient is written before backward().
  Matrix gradient_of(size_t task) const { return part(dy_, task); }
  /// Computes the gradients of the parameters, and dz [b, inputs], which is rounded after the gates
  /// and after each expert.
  void backward(Matrix dz, const Progress& progress);
  /// As Mlp::activations().
  std::vector<std::pair<std::string, Matrix>> activations() const;

 private:
  Matrix part(const Buffer& buffer, size_t index) const;
  /// The first rows of a buffer.
  Matrix of_batch(const Buffer& buffer, int64_t columns) const;
  int64_t gates() const { return shape_.tasks * shape_.experts; }

  Ops& ops_;
  Parameters& parameters_;
  Device& device_;
  MixtureShape shape_;
  DType compute_;
  std::vector<std::unique_ptr<Mlp>> experts_;
  int weight_ = 0;  // of the gates
  Buffer x_, y_, logits_, dx_, dy_, dlogits_;
  Array<float> shares_;
  Matrix z_;  // of the last forward
};

}  // namespace dlrm
