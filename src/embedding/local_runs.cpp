#include "replicated.h"

namespace dlrm {

LocalRuns::LocalRuns(Context& context, Ops& ops, ReplicatedList tables)
    : context_(context), ops_(ops), tables_(std::move(tables)), runs_(context.device) {}

void LocalRuns::group(const RoutedBatch& batch) {
  capacities_.clear();
  for (const ReplicatedTable* table : tables_) {
    int64_t ids = 0;
    for (const int f : table->features) {
      ids += ids_in({&batch.replicated[static_cast<size_t>(f)], 1});
    }
    capacities_.push_back(ids);
  }
  runs_.make_room(capacities_);
  for (size_t i = 0; i < tables_.size(); ++i) {
    groups_.clear();
    for (const int f : tables_[i]->features) {
      groups_.push_back(batch.replicated[static_cast<size_t>(f)]);
    }
    ops_.group_rows(groups_, tables_[i]->rows, runs_[i]);
  }
  context_.stream.synchronize();  // counts are read by the host
}

View<const BagGradient> LocalRuns::gradients(size_t i, const RoutedBatch& batch,
                                             MatrixView<float> de) {
  gradients_.clear();
  int64_t column = tables_[i]->first_column;
  for (const int f : tables_[i]->features) {
    gradients_.push_back(
        {de.columns(column, tables_[i]->width), batch.scales[static_cast<size_t>(f)]});
    column += tables_[i]->width;
  }
  return gradients_;
}

}  // namespace dlrm
