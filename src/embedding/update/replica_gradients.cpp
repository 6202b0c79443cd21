#include "replicas.h"

namespace dlrm {

ReplicaGradients::ReplicaGradients(Context& context, Ops& ops, ReplicaList tables)
    : ops_(ops),
      host_visible_(context.device.host_visible_memory()),
      tables_(std::move(tables)),
      segments_(context.device) {
  size_t features = 0;
  for (const Replica* table : tables_) {
    features += table->features.size();
    weighted_.push_back(table->weighted);
  }
  groups_.resize(features);
  gradients_.resize(features);
}

void ReplicaGradients::sort(const RoutedBatch& batch, Ops& ops) {
  capacities_.clear();
  updates_.clear();
  IdGroup* next = groups_.data();
  for (const Replica* table : tables_) {
    const View<const IdGroup> groups(next, table->features.size());
    for (const int f : table->features) *next++ = batch.requester.kept[static_cast<size_t>(f)];
    capacities_.push_back(ids_in(groups));
    updates_.push_back({table->store->table(), groups, {}, {}});
  }
  segments_.reserve(capacities_, weighted_);
  for (size_t i = 0; i < updates_.size(); ++i) updates_[i].runs = segments_[i];
  ops.group_rows_of(updates_, [] {});
}

View<const BagGradient> ReplicaGradients::gradients(size_t i, const RoutedBatch& batch,
                                                    const Matrix& de) {
  const auto at = updates_[i].groups.data() - groups_.data();
  BagGradient* next = gradients_.data() + at;
  int64_t column = tables_[i]->first_column;
  for (const int f : tables_[i]->features) {
    *next++ = {de.columns(column, tables_[i]->width),
               batch.requester.scales[static_cast<size_t>(f)]};
    column += tables_[i]->width;
  }
  return {gradients_.data() + at, tables_[i]->features.size()};
}

View<const UpdatedShard> ReplicaGradients::updates(const RoutedBatch& batch, const Matrix& de) {
  for (size_t i = 0; i < updates_.size(); ++i) updates_[i].gradients = gradients(i, batch, de);
  return updates_;
}

void ReplicaGradients::update(const OptimizerStep& step, const RoutedBatch& batch,
                              const Matrix& de) {
  ops_.embedding_bag_updates(step, updates(batch, de), [] {});
}

}  // namespace dlrm
