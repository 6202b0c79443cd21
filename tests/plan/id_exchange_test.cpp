#include "dlrm/plan/id_exchange.h"

#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

constexpr RoutingMode kExact = RoutingMode::kExact, kFixed = RoutingMode::kFixed;

/// Ids of 4 bytes: 12 of a sample. Vectors in fp32: 40 · 4 bytes of a sample.
RunConfig two_tables() {
  RunConfig config =
      config_of({table("a", 100, 24, {10}), table("b", 60, 8, {1, 1}), table("c", 5, 8)}, 8);
  config.device = DeviceKind::kCuda;
  config.comm = CommKind::kNccl;
  config.train.sparse_optimizer.type = OptimizerRule::kAdagrad;
  return config;
}

/// Table a on rank 0, b on the last one, and c on every rank.
Plan whole_tables(int world) {
  return {world, {{0, {0, 100}, {0, 24}, 0}, {1, {0, 60}, {0, 8}, world - 1}}, {2}};
}

TEST(DevicesExchangeIds, WithFixedRoutingOnGpusThatNcclConnects) {
  RunConfig config = two_tables();
  EXPECT_FALSE(devices_exchange_ids(config, whole_tables(2)));
  config.routing.mode = kExact;
  EXPECT_FALSE(devices_exchange_ids(config, whole_tables(2)));
  config.routing.mode = kFixed;
  EXPECT_TRUE(devices_exchange_ids(config, whole_tables(2)));
  EXPECT_FALSE(devices_exchange_ids(config, whole_tables(1)));
  const Plan cut{1, {{0, {0, 50}, {0, 24}, 0}, {0, {50, 100}, {0, 24}, 0}}, {1, 2}};
  EXPECT_TRUE(devices_exchange_ids(config, cut));
  config.comm = CommKind::kStaged;
  EXPECT_FALSE(devices_exchange_ids(config, whole_tables(2)));
  config.comm = CommKind::kAuto;
  config.device = DeviceKind::kCpu;
  EXPECT_FALSE(devices_exchange_ids(config, whole_tables(2)));
}

TEST(DevicesExchangeIds, UnlessTheHostsNeedThem) {
  RunConfig config = two_tables();
  config.routing.mode = kFixed;
  Plan plan = whole_tables(2);
  plan.shards[1].tier = MemoryTier::kCached;
  EXPECT_FALSE(devices_exchange_ids(config, plan));
  const Plan grid{
      2,
      {{0, {0, 50}, {0, 12}, 0}, {0, {0, 100}, {12, 24}, 0}, {0, {50, 100}, {0, 12}, 1}},
      {1, 2}};
  EXPECT_TRUE(devices_exchange_ids(config, grid));
  config.train.sparse_optimizer.type = OptimizerRule::kRowwiseAdagrad;
  EXPECT_FALSE(devices_exchange_ids(config, grid));
}

TEST(ChosenRouting, IsFixedIfTheIdsOfAllRanksAreFewerBytesThanVectors) {
  RunConfig config = two_tables();
  EXPECT_EQ(chosen_routing(config, whole_tables(2), {}), kFixed);
  EXPECT_EQ(chosen_routing(config, whole_tables(3), {}), kFixed);  // 3 · 12 ≤ 40 floats
  EXPECT_EQ(chosen_routing(config, whole_tables(4), {}), kExact);
  PlanOptions options;
  options.ranks_per_node = 4;
  EXPECT_EQ(chosen_routing(config, whole_tables(4), options), kFixed);
  EXPECT_EQ(chosen_routing(config, whole_tables(5), options), kExact);
  config.routing.mode = kFixed;
  EXPECT_EQ(chosen_routing(config, whole_tables(4), {}), kFixed);
  config.routing.mode = kExact;
  EXPECT_EQ(chosen_routing(config, whole_tables(2), {}), kExact);
}

TEST(ChosenRouting, CountsTheVectorsOfEmptyBags) {
  RunConfig config = two_tables();
  // Exact routing returns half of the bags of b.
  const Plan plan{
      2, {{0, {0, 100}, {0, 24}, 0}, {1, {0, 30}, {0, 8}, 0}, {1, {30, 60}, {0, 8}, 1}}, {2}};
  // Ids of two ranks take 24 floats, and vectors and gradients of empty bags 2 · 16.
  EXPECT_EQ(chosen_routing(config, plan, {}), kExact);
}

TEST(ChosenRouting, IsExactIfMemoryIsTooSmallForAllIds) {
  RunConfig config = two_tables();
  const Plan plan = whole_tables(2);
  const double exact = rank_memory(config, plan)[0].total();
  config.routing.mode = kFixed;
  const double fixed = rank_memory(config, plan)[0].total();
  config.routing.mode = RoutingMode::kAuto;
  ASSERT_LT(exact, fixed);
  PlanOptions options;
  options.gpu = true;
  options.rank_memory_bytes = fixed * 2;
  EXPECT_EQ(chosen_routing(config, plan, options), kFixed);
  options.rank_memory_bytes = (exact + fixed) / 2;
  EXPECT_EQ(chosen_routing(config, plan, options), kExact);
}

}  // namespace
}  // namespace dlrm::plan_test
