#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "training.h"

namespace dlrm::testing {
namespace {

Tensors initial_rows(const std::string& kind, int ranks, const EmbeddingOptions& options) {
  return train_all(plan_of(kind, options.tables, ranks), options, MadeUpBags(options.tables), {});
}

/// Tables of every initialisation.
EmbeddingOptions initial_options(OptimizerRule rule) {
  EmbeddingOptions options = options_for(odd_tables(Pooling::kSum), rule);
  for (size_t t = 0; t < options.tables.size(); ++t) {
    InitConfig& init = options.tables[t].init;
    init.type = std::vector{InitType::kNormal, InitType::kUniform, InitType::kZero}[t % 3];
    if (t == 3 || t == 4) init.scale = 0.25;
  }
  return options;
}

TEST(InitialRows, EveryShardingDrawsTheSameBits) {
  const EmbeddingOptions options = initial_options(OptimizerRule::kRowwiseAdagrad);
  const Tensors whole = initial_rows("table", 1, options);
  for (const char* kind : {"table", "row", "column", "grid", "data_parallel", "mixed", "ragged"}) {
    EXPECT_EQ(initial_rows(kind, 4, options), whole) << kind;
    EXPECT_EQ(initial_rows(kind, 3, options), whole) << kind;
  }
}

TEST(InitialRows, RowsAreThoseOfTheFieldOfTheirTable) {
  const EmbeddingOptions options = initial_options(OptimizerRule::kAdagrad);
  const Tensors whole = initial_rows("grid", 4, options);
  const PlainTables plain(options.tables, options.optimizer, options.seed);
  for (size_t t = 0; t < options.tables.size(); ++t) {
    const std::vector<float>& rows = whole.at("/tables/" + options.tables[t].name + "/weight");
    EXPECT_EQ(std::vector<double>(rows.begin(), rows.end()), plain.table(t).weight);
    EXPECT_THAT(whole.at("/tables/" + options.tables[t].name + "/adagrad"), ::testing::Each(0.01f));
  }
}

TEST(InitialRows, AreDrawnAgain) {
  EmbeddingOptions options = initial_options(OptimizerRule::kAdam);
  options.cached.fast = "75%";
  Plan plan = plan_of("mixed", options.tables, 2);
  for (size_t i = 0; i < plan.shards.size(); i += 2) plan.shards[i].tier = MemoryTier::kCached;
  const Tensors initial = initial_rows("mixed", 2, options);
  run_on_threads(2, [&](Communicator& comm) {
    Rank rank(comm);
    ShardedEmbeddings embeddings(rank.context, *rank.ops, options, plan);
    for (const TensorShard& shard : embeddings.shards()) {
      const std::vector<float> ones(values_of(shard).size(), 1.0f);
      shard.write(0, shard.rows.size(), ones.data());
    }
    embeddings.initialise();
    EXPECT_EQ(gather(comm, embeddings), initial);
  });
}

TEST(Plans, MayListTheirShardsAndTablesInAnyOrder) {
  EmbeddingOptions options = options_for(odd_tables(Pooling::kMean), OptimizerRule::kAdagrad);
  const MadeUpBags bags(options.tables);
  for (const char* kind : {"row", "grid", "data_parallel", "mixed", "ragged"}) {
    const Plan plan = plan_of(kind, options.tables, 3);
    Plan reversed = plan;
    std::reverse(reversed.shards.begin(), reversed.shards.end());
    std::reverse(reversed.data_parallel.begin(), reversed.data_parallel.end());
    const std::vector<int64_t> batches{13, 2, 16};
    EXPECT_EQ(train_all(reversed, options, bags, batches), train_all(plan, options, bags, batches))
        << kind;
  }
}

TEST(Arrays, EveryCellIsSavedByOneRankAndLoadedByAllThatHoldIt) {
  const EmbeddingOptions options =
      options_for(odd_tables(Pooling::kSum), OptimizerRule::kRowwiseAdagrad);
  const Plan plan = plan_of("mixed", options.tables, 4);
  run_on_threads(4, [&](Communicator& comm) {
    Rank rank(comm);
    ShardedEmbeddings embeddings(rank.context, *rank.ops, options, plan);
    for (const TensorShard& shard : embeddings.shards()) {
      const std::vector<float> ones(values_of(shard).size(), 1.0f);
      shard.write(0, shard.rows.size(), ones.data());
    }
    for (const auto& [path, values] : gather(comm, embeddings)) {
      EXPECT_THAT(values, ::testing::Each(1.0f)) << path;
    }
  });
}

TEST(Replicas, ADifferenceOfAnyArrayInAnyChunkIsNamed) {
  const Tables tables{table_of("big", 40000, 3, {1}, Pooling::kSum)};
  for (const char* array : {"weight", "adam_m", "adam_v"}) {
    for (const int64_t row : {0, 16383, 16384, 32768, 39999}) {
      const std::string error = error_of([&] {
        run_on_threads(3, [&](Communicator& comm) {
          Rank rank(comm);
          ShardedEmbeddings embeddings(rank.context, *rank.ops,
                                       options_for(tables, OptimizerRule::kAdam),
                                       plan_of("data_parallel", tables, 3));
          for (const TensorShard& shard : embeddings.shards()) {
            if (shard.path != std::string("/tables/big/") + array || comm.rank() == 0) continue;
            float values[3];
            shard.read(row, 1, values);
            values[2] += 1e-6f;
            shard.write(row, 1, values);
          }
          embeddings.check_replicas();
        });
      });
      EXPECT_EQ(error, fmt::format("table big, row {}: the copies of ranks 0 and 1 differ", row))
          << array;
    }
  }
}

TEST(Replicas, ABatchWithOneRowMoreThanAnyBeforeItTrainsAsOnOneRank) {
  const Tables tables{table_of("t", 20000, 4, {1}, Pooling::kSum)};
  const EmbeddingOptions options = options_for(tables, OptimizerRule::kAdagrad);
  const MadeUpBags bags(tables, /*variable=*/false);
  const std::vector<int64_t> batches{14, 16};  // 7 and 8 rows of each rank
  EXPECT_EQ(train_all(plan_of("data_parallel", tables, 2), options, bags, batches),
            train_all(plan_of("table", tables, 1), options, bags, batches));
}

TEST(Replicas, OfSeveralWidthsTrainAsOnOneRank) {
  const Tables tables{table_of("narrow", 20000, 4, {1}, Pooling::kSum),
                      table_of("wide", 20000, 9, {1}, Pooling::kSum),
                      table_of("last", 20000, 2, {1}, Pooling::kSum)};
  const EmbeddingOptions options = options_for(tables, OptimizerRule::kAdagrad);
  const MadeUpBags bags(tables, /*variable=*/false);
  const std::vector<int64_t> batches{14, 16};
  EXPECT_EQ(train_all(plan_of("data_parallel", tables, 2), options, bags, batches),
            train_all(plan_of("table", tables, 1), options, bags, batches));
}

}  // namespace
}  // namespace dlrm::testing
