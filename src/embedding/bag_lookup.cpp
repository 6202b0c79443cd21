#include "bag_lookup.h"

namespace dlrm {

BagLookup::BagLookup(Context& context, const LocalTables& tables, BagPooling& pooling)
    : tables_(tables), pooling_(pooling), e_(context.device, 0, "embedding vectors") {}

void BagLookup::lookup(const RoutedBatch& batch, Ops& ops) {
  if (!place_.data) {
    e_.reserve(static_cast<size_t>(batch.local.size() * tables_.layout().width));
  }
  pooling_.begin(batch);
  lookups_.clear();
  for (const OwnedShard& shard : tables_.shards()) {
    add_lookups(shard, tables_.mine(), batch, pooling_, e(batch), lookups_);
  }
  for (const Replica& replica : tables_.replicas()) {
    add_lookups(replica, tables_.layout(), batch, e(batch), lookups_);
  }
  ops.embedding_bag_forward(lookups_);
}

Matrix BagLookup::finish_return(const RoutedBatch& batch) {
  pooling_.finish_return(batch, e(batch));
  return e(batch);
}

}  // namespace dlrm
