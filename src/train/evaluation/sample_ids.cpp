#include "dlrm/train/sample_ids.h"

#include "dlrm/core/error.h"

namespace dlrm {

SampleIds::SampleIds(const ModelConfig& model, const std::string& feature) {
  for (const TableConfig& table : model.tables) {
    for (const FeatureConfig& of : table.features) {
      if (of.name == feature) return;
      ++column_;
    }
  }
  DLRM_CHECK(false, "there is no feature {}", feature);
}

void SampleIds::see(const Batch& batch) {
  const auto size = static_cast<size_t>(batch.size());
  const int64_t* const offsets = batch.offsets.data() + column_ * size;
  for (size_t i = 0; i < size; ++i) {
    const bool has_id = offsets[i + 1] > offsets[i];
    ids_.push_back(has_id ? batch.ids[static_cast<size_t>(offsets[i])] : kNone);
  }
}

}  // namespace dlrm
