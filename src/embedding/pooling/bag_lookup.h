#pragma once
#include "dlrm/embedding/sharded_embeddings.h"

#include "bag_pooling.h"
#include "embedding/tables/local_tables.h"

namespace dlrm {

/// The forward pass of a batch: pools rows on their owners and collects the vectors in E.
class BagLookup {
 public:
  BagLookup(Context& context, const LocalTables& tables, BagPooling& pooling);

  /// From now on E is written to the first rows of `e` instead of this object's memory.
  void pool_into(const Matrix& e) {
    place_ = e;
    pooling_.set_type(e.type);
  }
  /// Queues the lookups on `ops`, up to those of the first part that BagPooling returns. The
  /// batch's ids must be prepared.
  void lookup(const RoutedBatch& batch, Ops& ops);
  /// Starts to return each part, and queues the other lookups, all on `stream`.
  void start_return(const RoutedBatch& batch, Ops& ops, Stream& stream);
  /// Returns E [b, W]. Lookups have written the columns of replicas.
  Matrix finish_return(const RoutedBatch& batch);
  /// See ShardedEmbeddings::lookup_work().
  ShardedEmbeddings::LookupWork work() const;

 private:
  void list_shards(const RoutedBatch& batch, int part);
  void list_replicas(const RoutedBatch& batch);
  void run(Ops& ops);
  Matrix e(const RoutedBatch& batch) const {
    if (place_.data) return place_.row_range(0, batch.local.size());
    return MatrixView<float>(e_.data(), batch.local.size(), tables_.layout().width);
  }

  const LocalTables& tables_;
  BagPooling& pooling_;
  Array<float> e_;
  Matrix place_;
  Lookups lookups_;
};

}  // namespace dlrm
