#include "replicas.h"

#include "dlrm/core/error.h"
#include "dlrm/plan/traffic.h"

namespace dlrm {

std::vector<Replica> make_replicas(RowTools& tools, const EmbeddingOptions& options,
                                   const EmbeddingLayout& layout) {
  std::vector<Replica> replicas;
  for (size_t i = 0; i < layout.replicated.size(); ++i) {
    const int t = layout.replicated[i];
    const TableConfig& table = options.tables[static_cast<size_t>(t)];
    Replica replica;
    replica.table = t;
    replica.rows = table.rows;
    replica.width = table.dim;
    replica.weighted = table.weighted();
    replica.first_column =
        layout.features[static_cast<size_t>(layout.first_feature[static_cast<size_t>(t)])].column;
    for (int f = 0; f < layout.features_of(t); ++f) {
      replica.features.push_back(layout.first_feature[static_cast<size_t>(t)] + f);
      replica.max.push_back(layout.features[static_cast<size_t>(replica.features.back())].max);
    }
    replica.store = make_resident_rows(
        tools, layout.replica_kinds[i],
        RowShape(table, options.optimizer, options.seed, {0, table.rows}, {0, table.dim}));
    replicas.push_back(std::move(replica));
  }
  return replicas;
}

void add_lookups(const Replica& replica, const EmbeddingLayout& layout, const RoutedBatch& batch,
                 const Matrix& e, Lookups& lookups) {
  for (const int feature : replica.features) {
    const auto f = static_cast<size_t>(feature);
    const IdGroup& ids = batch.requester.kept[f];
    BagGroup lookup = bags_of(ids, replica.store->table());
    lookup.scale = batch.requester.scales[f];
    lookup.pooled = e.columns(layout.features[f].column, replica.width);
    lookups.of(layout.features[f]).push_back(lookup);
  }
}

ReplicaUpdates::ReplicaUpdates(Context& context, Ops& ops, const EmbeddingOptions& options,
                               const std::vector<Replica>& replicas) {
  ReplicaList gathered, reduced, all;
  for (const Replica& replica : replicas) {
    // Pairs need the number of rows in the batch. If the communicator is on the device, the host
    // does not know it.
    const bool pairs = !context.device_comm().on_device() &&
                       replicates_by_pairs(options.tables[static_cast<size_t>(replica.table)],
                                           options.max_global_batch, context.comm.size());
    (pairs ? gathered : reduced).push_back(&replica);
    all.push_back(&replica);
  }
  if (context.comm.size() == 1) {
    if (!all.empty()) updates_.push_back(make_local_update(context, ops, all));
    return;
  }
  if (!gathered.empty()) updates_.push_back(make_gathered_update(context, ops, gathered));
  if (!reduced.empty()) updates_.push_back(make_reduced_update(context, ops, reduced));
}

void ReplicaUpdates::sort(const RoutedBatch& batch, Ops& ops) {
  for (auto& update : updates_) update->sort(batch, ops);
}

void ReplicaUpdates::start(const RoutedBatch& batch, const Matrix& de) {
  for (auto& update : updates_) update->start(batch, de);
}

void ReplicaUpdates::poll() {
  for (auto& update : updates_) update->poll();
}

void ReplicaUpdates::finish(const OptimizerStep& step, const RoutedBatch& batch, const Matrix& de) {
  for (auto& update : updates_) update->finish(step, batch, de);
}

int64_t ReplicaUpdates::bytes_sent() const {
  int64_t total = 0;
  for (const auto& update : updates_) total += update->bytes_sent();
  return total;
}

int64_t ReplicaUpdates::summed_gradients() const {
  return updates_.size() == 1 ? updates_.front()->summed_gradients() : 0;
}

void ReplicaUpdates::sum_gradients_in(View<float> place) {
  DLRM_CHECK(static_cast<int64_t>(place.size()) == summed_gradients(),
             "a place of {} gradients for {}", place.size(), summed_gradients());
  updates_.front()->sum_gradients_in(place);
}

}  // namespace dlrm
