#include "bag_lookup.h"

#include <map>

namespace dlrm {

BagLookup::BagLookup(Context& context, const LocalTables& tables, BagPooling& pooling)
    : tables_(tables), pooling_(pooling), e_(context.device, 0, "embedding vectors") {}

void BagLookup::lookup(const RoutedBatch& batch, Ops& ops) {
  if (!place_.data) {
    e_.reserve(static_cast<size_t>(batch.local.size() * tables_.layout().width));
  }
  pooling_.begin(batch);
  lookups_.clear();
  list_shards(batch, 0);
  // Replicas hide the last exchange. Alone they need no launch of their own.
  if (pooling_.parts() == 1) list_replicas(batch);
  run(ops);
}

void BagLookup::start_return(const RoutedBatch& batch, Ops& ops, Stream& stream) {
  pooling_.start_return(batch, 0, ops, stream);
  if (pooling_.parts() == 1) return;
  for (int part = 1; part < pooling_.parts(); ++part) {
    list_shards(batch, part);
    run(ops);
    pooling_.start_return(batch, part, ops, stream);
  }
  list_replicas(batch);
  run(ops);
}

std::vector<double> BagLookup::work() const {
  // A device launches the lookups of each part and type at once, those in fp32 first.
  std::map<std::pair<int, bool>, double> launches;
  const auto shards = static_cast<int>(tables_.shards().size());
  for (int s = 0; s < shards; ++s) {
    const BagPooling::Return shard = pooling_.return_of(s);
    launches[{shard.part, shard.bf16}] += shard.work;
  }
  const auto world = static_cast<double>(tables_.layout().owners.size());
  const int last = pooling_.parts() == 1 ? 0 : pooling_.parts();
  for (const Replica& replica : tables_.replicas()) {
    for (const int f : replica.features) {
      const FeaturePlace& feature = tables_.layout().features[static_cast<size_t>(f)];
      launches[{last, place_.data && place_.type == DType::kBFloat16}] +=
          static_cast<double>(feature.width * (feature.hotness + 1)) / world;
    }
  }
  std::vector<double> work;
  for (const auto& launch : launches) work.push_back(launch.second);
  return work;
}

void BagLookup::list_shards(const RoutedBatch& batch, int part) {
  const std::vector<OwnedShard>& shards = tables_.shards();
  for (size_t s = 0; s < shards.size(); ++s) {
    if (pooling_.return_of(static_cast<int>(s)).part != part) continue;
    add_lookups(shards[s], tables_.layout(), tables_.mine(), batch, pooling_, e(batch), lookups_);
  }
}

void BagLookup::list_replicas(const RoutedBatch& batch) {
  for (const Replica& replica : tables_.replicas()) {
    add_lookups(replica, tables_.layout(), batch, e(batch), lookups_);
  }
}

void BagLookup::run(Ops& ops) {
  ops.embedding_bag_forward(lookups_.sums);
  if (!lookups_.maxima.empty()) ops.max_bag_forward(lookups_.maxima);
  lookups_.clear();
}

Matrix BagLookup::finish_return(const RoutedBatch& batch) {
  pooling_.finish_return(batch, e(batch));
  return e(batch);
}

}  // namespace dlrm
