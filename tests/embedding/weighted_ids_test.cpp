#include <gtest/gtest.h>

#include "training.h"

namespace dlrm::testing {
namespace {

const std::vector<int64_t> kBatches{13, 2, 16, 13};

TEST(WeightedBatches, OfRecurringSizesOrOfCachedRowsGiveTheSameBits) {
  const EmbeddingOptions options = options_for(weighted_tables(), OptimizerRule::kRowwiseAdagrad);
  const MadeUpBags bags(options.tables);
  for (const char* kind : {"mixed", "ragged", "column"}) {
    const Plan plan = plan_of(kind, options.tables, 3);
    Plan cached = plan;
    for (Shard& shard : cached.shards) shard.tier = MemoryTier::kCached;
    EmbeddingOptions with_cache = options;
    with_cache.cached.fast = "100%";
    for (const std::optional<OnGpu> gpu : {std::optional<OnGpu>(), std::optional(OnGpu())}) {
      if (gpu && cuda_device_count() == 0) continue;
      const Tensors plain = train_all(plan, options, bags, kBatches, 1, false, gpu);
      EXPECT_EQ(train_all(plan, options, bags, kBatches, 1, true, gpu), plain) << kind;
      EXPECT_EQ(train_all(cached, with_cache, bags, kBatches, 1, false, gpu), plain) << kind;
    }
  }
}

/// Routes the bags of a step with all weights 1, or without weights.
Tensors train_with_ones(const EmbeddingOptions& options, bool weighted) {
  EmbeddingOptions used = options;
  for (TableConfig& table : used.tables) {
    for (FeatureConfig& feature : table.features) feature.weights = weighted;
  }
  const MadeUpBags bags(options.tables);
  Tensors result;
  run_on_threads(2, [&](Communicator& comm) {
    Rank rank(comm, 1);
    ShardedEmbeddings embeddings(rank.context, *rank.ops, used, plan_of("mixed", used.tables, 2));
    for (int64_t t = 0; t < 3; ++t) {
      const Range local = part_of(13, comm.rank(), comm.size());
      std::vector<int64_t> ids, offsets;
      bags.fill(t, local.begin, local.end, ids, offsets);
      const std::vector<float> ones(weighted ? ids.size() : 0, 1.0f);
      embeddings.route({local, 13, ids, offsets, 0, ones});
      train(embeddings, rank.context, t, 13, options.optimizer.lr);
    }
    const Tensors tensors = gather(comm, embeddings);
    if (comm.rank() == 0) result = tensors;
  });
  return result;
}

TEST(WeightedBatches, OfWeightsOneGiveTheBitsOfBagsWithoutWeights) {
  const EmbeddingOptions options =
      options_for(odd_tables(Pooling::kSum), OptimizerRule::kRowwiseAdagrad);
  EXPECT_EQ(train_with_ones(options, true), train_with_ones(options, false));
}

TEST(WeightedBatches, NeedAWeightForEachId) {
  const EmbeddingOptions options = options_for(weighted_tables(), OptimizerRule::kSgd);
  const MadeUpBags bags(options.tables);
  run_on_threads(1, [&](Communicator& comm) {
    Rank rank(comm);
    ShardedEmbeddings embeddings(rank.context, *rank.ops, options,
                                 plan_of("table", options.tables, 1));
    std::vector<int64_t> ids, offsets;
    bags.fill(0, 0, 5, ids, offsets);
    EXPECT_THROW(embeddings.route({{0, 5}, 5, ids, offsets}), Error);
    const std::vector<float> weights = bags.weights(0, 0, 5);
    embeddings.route({{0, 5}, 5, ids, offsets, 0, weights});
    train(embeddings, rank.context, 0, 5, 0.1);
  });
}

}  // namespace
}  // namespace dlrm::testing
