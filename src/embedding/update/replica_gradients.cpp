#include <algorithm>

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
    const bool has_max = std::ranges::find(table->max, 1) != table->max.end();
    if (has_max && !max_) max_.emplace(context.device);
  }
  groups_.resize(features);
  gradients_.resize(features);
}

void ReplicaGradients::begin_max(const RoutedBatch& batch) {
  MaxGradients::Size size;
  for (const Replica* table : tables_) {
    for (size_t f = 0; f < table->features.size(); ++f) {
      if (!table->max[f]) continue;
      const IdGroup& ids = batch.requester.kept[static_cast<size_t>(table->features[f])];
      size.add_ids(ids);
      size.add_gradients(ids, table->width);
    }
  }
  max_->begin(size);
}

void ReplicaGradients::sort(const RoutedBatch& batch, Ops& ops) {
  if (max_) begin_max(batch);
  capacities_.clear();
  updates_.clear();
  IdGroup* next = groups_.data();
  for (const Replica* table : tables_) {
    const View<const IdGroup> groups(next, table->features.size());
    for (size_t f = 0; f < table->features.size(); ++f, ++next) {
      *next = batch.requester.kept[static_cast<size_t>(table->features[f])];
      if (table->max[f]) *next = max_->separated(*next, ops);
    }
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
  const Replica& table = *tables_[i];
  for (size_t f = 0; f < table.features.size(); ++f, ++next) {
    const auto feature = static_cast<size_t>(table.features[f]);
    *next = {de.columns(column, table.width), batch.requester.scales[feature]};
    if (table.max[f]) {
      *next =
          max_->gradients(table.store->table(), batch.requester.kept[feature], next->pooled, ops_);
    }
    column += table.width;
  }
  return {gradients_.data() + at, table.features.size()};
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
