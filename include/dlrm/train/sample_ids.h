#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/core/view.h"
#include "dlrm/data/batch.h"

namespace dlrm {

/// The id of one feature in each local sample of an evaluation, in the order of the predictions.
/// Takes 8 bytes for each.
class SampleIds {
 public:
  static constexpr int64_t kNone = -1;  ///< of a sample without an id

  /// The feature has one id in a sample. If a bag has more, the first one counts.
  SampleIds(const ModelConfig& model, const std::string& feature);

  /// Notes the ids of the next batch.
  void see(const Batch& batch);
  View<const int64_t> ids() const { return ids_; }

 private:
  size_t column_ = 0;  // of the feature among all features
  std::vector<int64_t> ids_;
};

}  // namespace dlrm
