#include <gtest/gtest.h>

#include "training.h"

namespace dlrm::testing {
namespace {

const std::vector<int64_t> kMaxBatches{13, 2, 16, 13};

/// A GPU, and a CPU with a thread.
std::vector<std::optional<OnGpu>> max_devices() {
  std::vector<std::optional<OnGpu>> all{std::nullopt};
  if (cuda_device_count() > 0) all.push_back(OnGpu());
  return all;
}

TEST(MaxPooledBags, OfSeveralRanksGiveTheBitsOfOneRank) {
  EmbeddingOptions options = options_for(max_tables(), OptimizerRule::kAdagrad);
  options.optimizer.clip_norm = 0.05;
  const MadeUpBags bags(options.tables);
  for (const std::optional<OnGpu>& gpu : max_devices()) {
    const Tensors one =
        train_all(plan_of("table", options.tables, 1), options, bags, kMaxBatches, 1, false, gpu);
    for (const int ranks : {2, 3}) {
      EXPECT_EQ(train_all(plan_of("table", options.tables, ranks), options, bags, kMaxBatches, 1,
                          false, gpu),
                one)
          << ranks;
    }
  }
  options.optimizer.clip_norm = 0;  // whose norms are added column shard by column shard
  for (const std::optional<OnGpu>& gpu : max_devices()) {
    const Tensors one =
        train_all(plan_of("table", options.tables, 1), options, bags, kMaxBatches, 1, false, gpu);
    for (const int ranks : {1, 2, 3}) {
      for (const char* plan : {"column", "two_columns_a_rank"}) {
        EXPECT_EQ(train_all(plan_of(plan, options.tables, ranks), options, bags, kMaxBatches, 1,
                            false, gpu),
                  one)
            << plan << ranks;
      }
    }
  }
}

TEST(MaxPooledBags, OfRecurringSizesOfCachedRowsAndOfFixedRoutingGiveTheSameBits) {
  const EmbeddingOptions options = options_for(max_tables(), OptimizerRule::kRowwiseAdagrad);
  const MadeUpBags bags(options.tables);
  for (const char* kind : {"table", "column"}) {
    const Plan plan = plan_of(kind, options.tables, 3);
    Plan cached = plan, on_host = plan;
    for (Shard& shard : cached.shards) shard.tier = MemoryTier::kCached;
    for (Shard& shard : on_host.shards) shard.tier = MemoryTier::kHost;
    EmbeddingOptions with_cache = options, fixed = options;
    with_cache.cached.fast = "100%";
    fixed.routing.mode = RoutingMode::kFixed;
    for (const std::optional<OnGpu>& gpu : max_devices()) {
      const Tensors plain = train_all(plan, options, bags, kMaxBatches, 1, false, gpu);
      EXPECT_EQ(train_all(plan, options, bags, kMaxBatches, 1, true, gpu), plain) << kind;
      EXPECT_EQ(train_all(cached, with_cache, bags, kMaxBatches, 1, false, gpu), plain) << kind;
      EXPECT_EQ(train_all(on_host, options, bags, kMaxBatches, 1, false, gpu), plain) << kind;
      EXPECT_EQ(train_all(plan, fixed, bags, kMaxBatches, 1, false, gpu), plain) << kind;
    }
  }
}

/// A penalty changes the rows of a batch that won no column, as it does those that won some.
TEST(MaxPooledBags, PenaliseEveryRowOfABatch) {
  EmbeddingOptions options =
      options_for({table_of("one", 4, 2, {3}, Pooling::kMax)}, OptimizerRule::kSgd);
  options.optimizer.l2 = 0.5;
  run_on_threads(1, [&](Communicator& comm) {
    Rank rank(comm, 1);
    ShardedEmbeddings embeddings(rank.context, *rank.ops, options,
                                 plan_of("table", options.tables, 1));
    const std::vector<float> before = gather(comm, embeddings).at("/tables/one/weight");
    const std::vector<int64_t> ids{0, 1, 2}, offsets{0, 3};
    embeddings.route({{0, 1}, 1, ids, offsets});
    train(embeddings, rank.context, 0, 1, 0.1);
    const std::vector<float> after = gather(comm, embeddings).at("/tables/one/weight");
    for (size_t c = 0; c < 2; ++c) {
      int winners = 0;
      for (size_t r = 0; r < 3; ++r) {
        const float w = before[2 * r + c];
        if (w == std::max({before[c], before[2 + c], before[4 + c]})) {
          ++winners;
        } else {
          EXPECT_NEAR(after[2 * r + c], w - 0.1f * 0.5f * w, 1e-6);
        }
      }
      EXPECT_EQ(winners, 1);
      EXPECT_EQ(after[6 + c], before[6 + c]) << "a row that is in no bag";
    }
  });
}

}  // namespace
}  // namespace dlrm::testing
