#include "row_updates.h"

namespace dlrm {

RowUpdates::RowUpdates(Context& context, Ops& ops, const LocalTables& tables, BagPooling& pooling,
                       std::function<void()> progress)
    : ops_(ops),
      tables_(tables),
      pooling_(pooling),
      progress_(std::move(progress)),
      segments_(context.device) {
  if (needs_row_norms(tables.options().optimizer) && columns_are_cut(tables.layout())) {
    square_sums_.emplace(context, ops, tables.layout(), tables.shards());
  }
}

void RowUpdates::sort(const RoutedBatch& batch, Ops& ops) {
  capacities_.clear();
  weighted_.clear();
  for (const Slice& slice : tables_.mine().slices) {
    capacities_.push_back(ids_in(groups_of(slice, batch)));
    weighted_.push_back(tables_.layout().weighted(slice.table));
  }
  segments_.reserve(capacities_, weighted_);
  updates_.clear();
  // Column shards of a slice share its segments, so ids are sorted for the first of them only.
  for (const OwnedShard& shard : tables_.shards()) {
    if (static_cast<size_t>(shard.slice) != updates_.size()) continue;
    updates_.push_back(update_of(shard, batch));
  }
  ops.group_rows_of(updates_, progress_);
}

void RowUpdates::start_square_sums(const RoutedBatch& batch, const Matrix& de) {
  if (!square_sums_) return;
  square_sums_->begin(segments_);
  for (size_t s = 0; s < tables_.shards().size(); ++s) {
    const OwnedShard& shard = tables_.shards()[s];
    if (!shard.columns_cut) continue;
    gradients_.clear();
    list_gradients(shard, tables_.mine(), batch, pooling_, de, gradients_);
    ops_.embedding_bag_backward(segments_[static_cast<size_t>(shard.slice)], gradients_,
                                square_sums_->gradients(s));
  }
  square_sums_->start(segments_, batch.owner);
}

void RowUpdates::update(const OptimizerStep& step, const RoutedBatch& batch, const Matrix& de) {
  updates_.clear();
  gradients_.clear();
  for (const OwnedShard& shard : tables_.shards()) {
    if (square_sums_ && shard.columns_cut) continue;
    list_gradients(shard, tables_.mine(), batch, pooling_, de, gradients_);
    updates_.push_back(update_of(shard, batch));
  }
  const BagGradient* next = gradients_.data();
  for (UpdatedShard& update : updates_) {
    update.gradients = {next, update.groups.size()};
    next += update.groups.size();
  }
  ops_.embedding_bag_updates(step, updates_, progress_);
}

void RowUpdates::finish_square_sums(const OptimizerStep& step, const RoutedBatch& batch) {
  if (!square_sums_) return;
  square_sums_->finish(batch.owner);
  for (size_t s = 0; s < tables_.shards().size(); ++s) {
    const OwnedShard& shard = tables_.shards()[s];
    if (!shard.columns_cut) continue;
    const SegmentedRows& segments = segments_[static_cast<size_t>(shard.slice)];
    ops_.sparse_update(step, shard.store->table(), segments.rows, segments.count,
                       square_sums_->gradients(s), square_sums_->totals(s),
                       tables_.config(shard.table).dim);
  }
}

void RowUpdates::poll() {
  if (square_sums_) square_sums_->poll();
}

UpdatedShard RowUpdates::update_of(const OwnedShard& shard, const RoutedBatch& batch) const {
  const auto slice = static_cast<size_t>(shard.slice);
  return {
      shard.store->table(), groups_of(tables_.mine().slices[slice], batch), {}, segments_[slice]};
}

View<const IdGroup> RowUpdates::groups_of(const Slice& slice, const RoutedBatch& batch) const {
  return batch.owner.pieces_of(static_cast<size_t>(slice.first_group),
                               static_cast<size_t>(tables_.layout().features_of(slice.table)));
}

}  // namespace dlrm
