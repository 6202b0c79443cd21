#include "replicated.h"

#include "dlrm/plan/traffic.h"

namespace dlrm {

ReplicatedTables::ReplicatedTables(Context& context, Ops& ops, const EmbeddingOptions& options,
                                   const EmbeddingLayout& layout) {
  for (size_t i = 0; i < layout.replicated.size(); ++i) {
    const int t = layout.replicated[i];
    const TableConfig& table = options.tables[static_cast<size_t>(t)];
    ReplicatedTable replicated;
    replicated.table = t;
    replicated.rows = table.rows;
    replicated.width = table.dim;
    replicated.first_column =
        layout.features[static_cast<size_t>(layout.first_feature[static_cast<size_t>(t)])].column;
    for (int f = 0; f < layout.features_of(t); ++f) {
      replicated.features.push_back(layout.first_feature[static_cast<size_t>(t)] + f);
    }
    replicated.store =
        make_resident_rows(context.device, layout.replica_places[i],
                           shape_of_rows(table, options.seed, {0, table.rows}, {0, table.dim}),
                           options.optimizer.type);
    tables_.push_back(std::move(replicated));
  }
  ReplicatedList gathered, reduced, all;
  for (const ReplicatedTable& table : tables_) {
    // How many rows a batch touches is known to a device alone: pairs would travel padded.
    const bool pairs = !context.device_comm().on_device() &&
                       replicates_by_pairs(options.tables[static_cast<size_t>(table.table)],
                                           options.max_global_batch, context.comm.size());
    (pairs ? gathered : reduced).push_back(&table);
    all.push_back(&table);
  }
  if (context.comm.size() == 1) {
    if (!all.empty()) updates_.push_back(make_local_update(context, ops, all));
    return;
  }
  exchange_ = !all.empty();
  if (!gathered.empty()) updates_.push_back(make_gathered_update(context, ops, gathered));
  if (!reduced.empty()) updates_.push_back(make_reduced_update(context, ops, reduced));
}

void ReplicatedTables::add_lookups(const EmbeddingLayout& layout, const RoutedBatch& batch,
                                   MatrixView<float> e, std::vector<BagGroup>& lookups) const {
  for (const ReplicatedTable& table : tables_) {
    for (const int feature : table.features) {
      const auto f = static_cast<size_t>(feature);
      BagGroup lookup;
      lookup.table = table.store->table();
      lookup.ids = batch.requester.kept[f].ids;
      lookup.offsets = batch.requester.kept[f].offsets;
      lookup.bags = batch.requester.kept[f].bags;
      lookup.capacity = batch.requester.kept[f].capacity;
      lookup.scale = batch.requester.scales[f];
      lookup.pooled = e.columns(layout.features[f].column, table.width);
      lookups.push_back(lookup);
    }
  }
}

void ReplicatedTables::group(const RoutedBatch& batch, Ops& ops) {
  for (auto& update : updates_) update->group(batch, ops);
}

void ReplicatedTables::start(const RoutedBatch& batch, MatrixView<float> de) {
  for (auto& update : updates_) update->start(batch, de);
}

void ReplicatedTables::poll() {
  for (auto& update : updates_) update->poll();
}

void ReplicatedTables::finish(const OptimizerStep& step, const RoutedBatch& batch,
                              MatrixView<float> de) {
  for (auto& update : updates_) update->finish(step, batch, de);
}

int64_t ReplicatedTables::bytes_sent() const {
  int64_t total = 0;
  for (const auto& update : updates_) total += update->bytes_sent();
  return total;
}

}  // namespace dlrm
