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
  for (size_t block = 0; block < tables.mine().blocks.size() && !max_; ++block) {
    if (pools_max(block)) max_.emplace(context.device);
  }
}

void RowUpdates::sort(const RoutedBatch& batch, Ops& ops) {
  if (max_) separate_ids(batch, ops);
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
    add_gradients(shard, batch, de);
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
    add_gradients(shard, batch, de);
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

bool RowUpdates::pools_max(size_t block) const {
  return tables_.layout().features[static_cast<size_t>(tables_.mine().blocks[block].feature)].max;
}

void RowUpdates::separate_ids(const RoutedBatch& batch, Ops& ops) {
  MaxGradients::Size size;
  const auto for_max_pieces = [&](const OwnedShard& shard, const auto& body) {
    for_pieces(shard, tables_.mine(), batch, [&](size_t block, size_t piece) {
      if (pools_max(block)) body(piece);
    });
  };
  // Column shards of a slice share its ids.
  const auto for_max_ids = [&](const auto& body) {
    int slice = -1;
    for (const OwnedShard& shard : tables_.shards()) {
      if (shard.slice != slice) for_max_pieces(shard, body);
      slice = shard.slice;
    }
  };
  const std::vector<IdGroup>& pieces = batch.owner.pieces;
  for_max_ids([&](size_t piece) { size.add_ids(pieces[piece]); });
  for (const OwnedShard& shard : tables_.shards()) {
    for_max_pieces(shard,
                   [&](size_t piece) { size.add_gradients(pieces[piece], shard.columns.size()); });
  }
  max_->begin(size);
  separated_ = pieces;
  for_max_ids([&](size_t piece) { separated_[piece] = max_->separated(pieces[piece], ops); });
}

void RowUpdates::add_gradients(const OwnedShard& shard, const RoutedBatch& batch,
                               const Matrix& de) {
  for_pieces(shard, tables_.mine(), batch, [&](size_t block, size_t piece) {
    const BagPooling::Piece place = pooling_.gradient(batch, block, piece, de);
    gradients_.push_back({place.pooled, place.scale});
    if (!max_ || !pools_max(block)) return;
    gradients_.back() =
        max_->gradients(shard.store->table(), batch.owner.pieces[piece], place.pooled, ops_);
  });
}

UpdatedShard RowUpdates::update_of(const OwnedShard& shard, const RoutedBatch& batch) const {
  const auto slice = static_cast<size_t>(shard.slice);
  return {
      shard.store->table(), groups_of(tables_.mine().slices[slice], batch), {}, segments_[slice]};
}

View<const IdGroup> RowUpdates::groups_of(const Slice& slice, const RoutedBatch& batch) const {
  const View<const IdGroup> pieces =
      batch.owner.pieces_of(static_cast<size_t>(slice.first_group),
                            static_cast<size_t>(tables_.layout().features_of(slice.table)));
  if (!max_) return pieces;
  return {separated_.data() + (pieces.data() - batch.owner.pieces.data()), pieces.size()};
}

}  // namespace dlrm
