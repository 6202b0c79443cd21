#include "dlrm/plan/id_exchange.h"

#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

constexpr RoutingMode kExactRouting = RoutingMode::kExact, kFixedRouting = RoutingMode::kFixed;

TEST(DevicesExchangeIds, WithFixedRoutingOnGpusThatNcclConnects) {
  RunConfig config = two_tables();
  EXPECT_FALSE(devices_exchange_ids(config, whole_tables(2)));
  config.routing.mode = kExactRouting;
  EXPECT_FALSE(devices_exchange_ids(config, whole_tables(2)));
  config.routing.mode = kFixedRouting;
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
  config.routing.mode = kFixedRouting;
  config.model.tables[1].features[0].weights = true;
  EXPECT_FALSE(devices_exchange_ids(config, whole_tables(2)));
  config.model.tables[1].features[0].weights = false;
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

}  // namespace
}  // namespace dlrm::plan_test
