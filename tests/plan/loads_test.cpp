#include "dlrm/plan/traffic.h"

#include "plan/memory.h"
#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

TEST(RowStride, StridesArePowersOfTwoUpTo64BytesThenMultiplesOf64) {
  EXPECT_EQ(table_stride(1, DType::kFloat32), 1);
  EXPECT_EQ(table_stride(3, DType::kFloat32), 4);
  EXPECT_EQ(table_stride(9, DType::kFloat32), 16);
  EXPECT_EQ(table_stride(16, DType::kFloat32), 16);
  EXPECT_EQ(table_stride(17, DType::kFloat32), 32);
  EXPECT_EQ(table_stride(33, DType::kFloat32), 48);
  EXPECT_EQ(table_stride(33, DType::kBFloat16), 64);
  EXPECT_EQ(table_stride(5, DType::kBFloat16), 8);
}

TEST(ExpectedUniqueRows, AreThoseOfUniformIds) {
  EXPECT_DOUBLE_EQ(expected_unique_rows(10, 1), 1);
  EXPECT_NEAR(expected_unique_rows(2'000'000'000, 1), 1, 1e-12);
  EXPECT_DOUBLE_EQ(expected_unique_rows(2, 2), 1.5);
  EXPECT_EQ(expected_unique_rows(1, 0), 0);
  EXPECT_EQ(expected_unique_rows(100, 0), 0);
  EXPECT_EQ(expected_unique_rows(0, 5), 0);
}

/// Batch 5 over 2 ranks: samples [0, 2) and [2, 5). `a` is whole on rank 0 (two features), `b` is
/// cut by rows at 4 of 10, `c` is data-parallel.
class TwoRanks : public ::testing::Test {
 protected:
  RunConfig config =
      config_of({table("a", 100, 8, {1, 2}), table("b", 10, 4, {5}), table("c", 2, 3)}, 5);
  Plan plan{2, {{0, {0, 100}, {0, 8}, 0}, {1, {0, 4}, {0, 4}, 0}, {1, {4, 10}, {0, 4}, 1}}, {2}};
};

TEST_F(TwoRanks, TablesAndShardsAreCounted) {
  const std::vector<RankLoad> loads = rank_loads(config, plan);
  EXPECT_EQ(loads[0].tables, 2);
  EXPECT_EQ(loads[1].tables, 1);
  EXPECT_EQ(loads[0].shards, 2);
}

TEST_F(TwoRanks, ShardsServeTheWholeBatchAndReplicasTheLocalOne) {
  const std::vector<RankLoad> loads = rank_loads(config, plan);
  EXPECT_DOUBLE_EQ(loads[0].lookups, 5 * 3 + 5 * 5 * 0.4 + 2);
  EXPECT_DOUBLE_EQ(loads[1].lookups, 5 * 5 * 0.6 + 3);
}

TEST_F(TwoRanks, TheReplicatedTableOfTwoRowsIsReducedWhole) {
  const std::vector<RankLoad> loads = rank_loads(config, plan);
  // 2·(1/2)·[2, 3 + 1] floats = 32 bytes. Pairs of the 1.75 rows that 3 samples use: 35 bytes.
  EXPECT_DOUBLE_EQ(loads[0].replicated_bytes, 32);
  EXPECT_DOUBLE_EQ(loads[1].replicated_bytes, 32);
}

TEST_F(TwoRanks, TableBytesCountRowStridesAndState) {
  const std::vector<RankMemory> memory = rank_memory(config, plan);
  const double replica = 2 * 4 * 4;
  EXPECT_DOUBLE_EQ(memory[0].tables, 100 * 8 * 4 + 4 * 4 * 4 + replica);
  EXPECT_DOUBLE_EQ(memory[1].tables, 6 * 4 * 4 + replica);
  EXPECT_DOUBLE_EQ(memory[0].optimizer_state, memory[0].tables);
}

TEST_F(TwoRanks, StateBytesFollowTheOptimizer) {
  const auto state = [&](OptimizerRule type) {
    config.train.sparse_optimizer.type = type;
    return rank_memory(config, plan)[1].optimizer_state;
  };
  EXPECT_EQ(state(OptimizerRule::kSgd), 0);
  EXPECT_EQ(state(OptimizerRule::kRowwiseAdagrad), 4 * (6 + 2));
  EXPECT_EQ(state(OptimizerRule::kAdam), 2 * (6 * 4 + 2 * 4) * 4);
  EXPECT_EQ(state(OptimizerRule::kFtrl), 2 * (6 * 4 + 2 * 4) * 4);
}

TEST_F(TwoRanks, LoadsCountAllMemory) {
  const std::vector<RankLoad> loads = rank_loads(config, plan);
  const std::vector<RankMemory> memory = rank_memory(config, plan);
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_DOUBLE_EQ(loads[rank].table_bytes + loads[rank].other_bytes, memory[rank].total());
  }
}

TEST(RankLoads, IdsOfColumnShardsOfOneRankCountOnce) {
  const RunConfig config = config_of({table("t", 10, 8, {3})}, 4);
  const Plan plan{
      2, {{0, {0, 10}, {2, 6}, 0}, {0, {0, 10}, {0, 2}, 1}, {0, {0, 10}, {6, 8}, 1}}, {}};
  const std::vector<RankLoad> loads = rank_loads(config, plan);
  EXPECT_EQ(loads[0].ids_sent_bytes, 2 * 3 * 4);
  EXPECT_DOUBLE_EQ(loads[0].gradient_sent_bytes, 2 * 4 * 4);
  EXPECT_EQ(loads[1].tables, 1);
  EXPECT_EQ(loads[1].shards, 2);
}

/// A table cut into two halves of its rows. With hotness 1, half an id per bag is expected in each.
TEST(RankLoads, OnlyNonEmptyBagsOfARowShardCount) {
  RunConfig config = config_of({table("t", 10, 8, {1, 4})}, 4);
  const Plan plan{2, {{0, {0, 5}, {0, 8}, 0}, {0, {5, 10}, {0, 8}, 1}}, {}};
  EXPECT_DOUBLE_EQ(rank_loads(config, plan)[0].pooled_sent_bytes, 2 * (0.5 + 1) * 8 * 4);
  EXPECT_DOUBLE_EQ(rank_loads(config, plan)[1].gradient_sent_bytes, 2 * (0.5 + 1) * 8 * 4);
  config.routing.mode = RoutingMode::kFixed;
  EXPECT_DOUBLE_EQ(rank_loads(config, plan)[0].pooled_sent_bytes, 2 * (1 + 1) * 8 * 4);
}

TEST(RankLoads, IdsTakeEightBytesBeyondTwoToThe31Rows) {
  const Plan plan{2, {{0, {0, int64_t{3} << 30}, {0, 8}, 0}}, {}};
  const RunConfig config = config_of({table("t", int64_t{3} << 30, 8, {5})}, 4);
  EXPECT_EQ(rank_loads(config, plan)[1].ids_sent_bytes, 2 * 5 * 8);
}

TEST(RankLoads, ARankWithoutSamplesSendsNothing) {
  const RunConfig config = config_of({table("t", 10, 8)}, 1);
  const Plan plan{2, {{0, {0, 10}, {0, 8}, 1}}, {}};
  EXPECT_EQ(rank_loads(config, plan)[0].sent_bytes(), 0);
}

TEST(RankLoads, OneRankExchangesNothing) {
  const RunConfig config = odd_config(Strategy::kTable);
  const RankLoad load = rank_loads(config, make_plan(config, 1))[0];
  EXPECT_EQ(load.sent_bytes(), 0);
  EXPECT_EQ(load.received_bytes(), 0);
}

TEST(RankLoads, MoreRanksThanSamplesGiveFiniteLoads) {
  const RunConfig config = odd_config(Strategy::kGrid, 3);
  for (const RankLoad& load : rank_loads(config, make_plan(config, 8))) {
    EXPECT_GE(load.sent_bytes(), 0);
    EXPECT_GT(load.other_bytes, 0);
  }
}

TEST(RankMemory, Bf16CopiesOfDenseParametersCount) {
  RunConfig config = odd_config(Strategy::kTable);
  const Plan plan = make_plan(config, 2);
  const double before = rank_memory(config, plan)[0].dense;
  config.train.precision = Precision::kBf16;
  const auto parameters = static_cast<double>(config.model.dense_parameters());
  EXPECT_DOUBLE_EQ(rank_memory(config, plan)[0].dense - before, 2 * parameters);
}

TEST(RankMemory, PartsOfTheSameRowsOnOneRankShareTheirIds) {
  const RunConfig config = config_of({table("t", 100000, 32, {1, 2})}, 512);
  const Plan whole{2, {{0, {0, 30000}, {0, 32}, 0}, {0, {30000, 100000}, {0, 32}, 1}}, {}};
  const Plan parts{
      2,
      {{0, {0, 30000}, {0, 16}, 0}, {0, {0, 30000}, {16, 32}, 0}, {0, {30000, 100000}, {0, 32}, 1}},
      {}};
  const auto one = rank_memory(config, whole), two = rank_memory(config, parts);
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(one[rank].routing, two[rank].routing) << rank;
    EXPECT_EQ(one[rank].exchange, two[rank].exchange) << rank;
    EXPECT_EQ(rank_loads(config, whole)[rank].ids_sent_bytes,
              rank_loads(config, parts)[rank].ids_sent_bytes);
  }
}

TEST(RankMemory, TheRoutingDepthCounts) {
  RunConfig config = odd_config(Strategy::kTable);
  const Plan plan = make_plan(config, 1);
  const auto at_depth = [&](int depth) {
    config.routing.depth = depth;
    return rank_memory(config, plan)[0].routing;
  };
  EXPECT_GT(at_depth(1), at_depth(0));
  EXPECT_DOUBLE_EQ(at_depth(3) - at_depth(1), 2 * (at_depth(1) - at_depth(0)));
}

}  // namespace
}  // namespace dlrm::plan_test
