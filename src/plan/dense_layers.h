#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/config/run_config.h"

namespace dlrm {

/// A layer of an MLP.
struct DenseLayer {
  int64_t inputs = 0, outputs = 0;
  bool activated = true;  ///< the last layer of a tower has logits
  // Only hidden layers have these, all but the last of an MLP.
  bool dropout = false;
  bool norm = false;
};

/// The MLPs of a model, each in forward order.
struct DenseLayers {
  std::vector<DenseLayer> bottom;
  std::vector<DenseLayer> experts;  ///< of all experts
  std::vector<DenseLayer> towers;

  std::vector<DenseLayer> all() const;
};
DenseLayers dense_layers(const ModelConfig& model);

/// Outputs of the gates for a sample: a logit for each task and expert.
int64_t gate_outputs(const ModelConfig& model);

}  // namespace dlrm
