#include "bag_lookup.h"

#include <map>

namespace dlrm {
namespace {

class LocalPooling final : public BagPooling {
 public:
  explicit LocalPooling(const EmbeddingLayout& layout) : layout_(layout) {}

  void set_type(DType vectors) override { bf16_ = vectors == DType::kBFloat16; }
  void begin(const RoutedBatch&) override {}
  Return return_of(int) const override { return {0, bf16_}; }
  Piece pooled(const RoutedBatch& batch, size_t block, size_t, const Matrix& e) override {
    const PooledBlock& place = layout_.owners[0].blocks[block];
    return {e.columns(place.e_column, place.width),
            batch.requester.scales[static_cast<size_t>(place.feature)]};
  }
  Piece gradient(const RoutedBatch& batch, size_t block, size_t piece, const Matrix& de) override {
    return pooled(batch, block, piece, de);
  }
  void start_return(const RoutedBatch&, int, Ops&, Stream&) override {}
  void finish_return(const RoutedBatch&, const Matrix&) override {}
  void start_backward(const RoutedBatch&, const Matrix&) override {}
  void finish_backward(const RoutedBatch&) override {}
  void poll() override {}
  int64_t pooled_bytes() const override { return 0; }
  int64_t gradient_bytes() const override { return 0; }

 private:
  const EmbeddingLayout& layout_;
  bool bf16_ = false;
};

/// Appends the groups that a lookup pools from `shard`.
void add_lookups(const OwnedShard& shard, const EmbeddingLayout& layout, const OwnerLayout& mine,
                 const RoutedBatch& batch, BagPooling& pooling, const Matrix& e, Lookups& lookups) {
  for_pieces(shard, mine, batch, [&](size_t block, size_t piece) {
    const IdGroup& ids = batch.owner.pieces[piece];
    const BagPooling::Piece place = pooling.pooled(batch, block, piece, e);
    BagGroup lookup = bags_of(ids, shard.store->table());
    lookup.scale = place.scale;
    lookup.pooled = place.pooled;
    lookups.of(layout.features[static_cast<size_t>(mine.blocks[block].feature)]).push_back(lookup);
  });
}

}  // namespace

std::unique_ptr<BagPooling> make_local_pooling(const EmbeddingLayout& layout) {
  return std::make_unique<LocalPooling>(layout);
}

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

ShardedEmbeddings::LookupWork BagLookup::work() const {
  ShardedEmbeddings::LookupWork work;
  // A device launches the sums of each part and type at once, those in fp32 first.
  std::map<std::pair<int, bool>, double> launches;
  const auto add = [&](bool max, int part, bool bf16, double amount) {
    if (amount > 0) (max ? work.maxima : launches[{part, bf16}]) += amount;
  };
  const auto places = [&](int f) -> const FeaturePlace& {
    return tables_.layout().features[static_cast<size_t>(f)];
  };
  const std::vector<OwnedShard>& shards = tables_.shards();
  for (size_t s = 0; s < shards.size(); ++s) {
    const BagPooling::Return shard = pooling_.return_of(static_cast<int>(s));
    double of_sums = 0, of_maxima = 0;
    for (int i = 0; i < shards[s].features; ++i) {
      const size_t block = shards[s].first_block + static_cast<size_t>(i);
      const PooledBlock& place = tables_.mine().blocks[block];
      const FeaturePlace& feature = places(place.feature);
      (feature.max ? of_maxima : of_sums) +=
          static_cast<double>(place.width * (feature.hotness + 1));
    }
    const double all = of_sums + of_maxima, work = shard.work > 0 ? shard.work : all;
    add(false, shard.part, shard.bf16, work * of_sums / all);
    add(true, shard.part, shard.bf16, work * of_maxima / all);
  }
  const auto world = static_cast<double>(tables_.layout().owners.size());
  const int last = pooling_.parts() == 1 ? 0 : pooling_.parts();
  const bool bf16 = place_.data && place_.type == DType::kBFloat16;
  for (const Replica& replica : tables_.replicas()) {
    for (const int f : replica.features) {
      const FeaturePlace& feature = places(f);
      add(feature.max, last, bf16,
          static_cast<double>(feature.width * (feature.hotness + 1)) / world);
    }
  }
  for (const auto& launch : launches) work.sums.push_back(launch.second);
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
