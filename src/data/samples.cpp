#include "dlrm/data/samples.h"

namespace dlrm {

Inputs inputs_of(const ModelConfig& model) {
  Inputs inputs;
  inputs.dense = model.dense_features;
  inputs.tasks = model.task_names();
  inputs.weighted = model.weighted();
  for (const TableConfig& table : model.tables) {
    if (table.is_linear) continue;
    for (const FeatureConfig& feature : table.features) {
      inputs.number[feature.name] = static_cast<int64_t>(inputs.features.size());
      inputs.features.push_back({feature.name, table.rows, feature.weights});
    }
  }
  return inputs;
}

void Samples::append(const Samples& others) {
  const auto before = static_cast<int64_t>(ids.size());
  size += others.size;
  dense.insert(dense.end(), others.dense.begin(), others.dense.end());
  ids.insert(ids.end(), others.ids.begin(), others.ids.end());
  weights.insert(weights.end(), others.weights.begin(), others.weights.end());
  for (size_t i = 1; i < others.offsets.size(); ++i) offsets.push_back(before + others.offsets[i]);
}

void Samples::clear() {
  size = 0;
  dense.clear();
  ids.clear();
  weights.clear();
  offsets.assign(1, 0);
}

}  // namespace dlrm
