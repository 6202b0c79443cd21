#include "criteo_survey.h"

namespace dlrm {

CriteoSurvey::CriteoSurvey(bool count_values) : counts_(count_values ? kCriteoCategories : 0) {}

void CriteoSurvey::encode(size_t feature, CriteoBlock& block) {
  if (counts_.empty()) return;
  Counts& counts = counts_[feature];
  const auto rows = static_cast<size_t>(block.rows);
  const View<int32_t> ids = View<int32_t>(block.ids[feature]).first(rows);
  counts.values.insert_all(View<const CategoryValue>(block.values[feature]).first(rows), ids);
  counts.of_id.resize(static_cast<size_t>(counts.values.size()), 0);
  for (const int32_t id : ids) ++counts.of_id[static_cast<size_t>(id)];
}

void CriteoSurvey::add_frequent(size_t feature, int64_t threshold, Dictionary& dictionary) {
  const Counts counts = std::move(counts_[feature]);
  const std::vector<CategoryValue> values = counts.values.values();
  for (size_t id = 0; id < values.size(); ++id) {
    if (counts.of_id[id] >= threshold) dictionary.insert(values[id]);
  }
}

}  // namespace dlrm
