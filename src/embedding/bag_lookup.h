#pragma once
#include <vector>

#include "bag_pooling.h"
#include "local_tables.h"

namespace dlrm {

/// The forward pass of a batch: pools rows on their owners and collects the vectors in E.
class BagLookup {
 public:
  BagLookup(Context& context, const LocalTables& tables, BagPooling& pooling);

  /// Queues the lookups on `ops`. The batch's ids must be prepared.
  void lookup(const RoutedBatch& batch, Ops& ops);
  /// Returns E [b, W]. lookup() has written the columns of replicas.
  MatrixView<const float> finish_return(const RoutedBatch& batch);

 private:
  MatrixView<float> e(const RoutedBatch& batch) const {
    return {e_.data(), batch.local.size(), tables_.layout().width};
  }

  const LocalTables& tables_;
  BagPooling& pooling_;
  Array<float> e_;
  std::vector<BagGroup> lookups_;
};

}  // namespace dlrm
