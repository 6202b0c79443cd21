// A program whose operations are not fused: its placement and its simulated step.
#include "bench/unfused_step.h"

#include <nlohmann/json.hpp>

#include "../plan/plan_fixtures.h"

namespace dlrm::bench {
namespace {

using plan_test::config_of;
using plan_test::table;

TEST(MemoryBalancedPlan, DealsSlicesForwardsAndBackwards) {
  const RunConfig config = config_of({table("a", 100, 8), table("b", 90, 8), table("c", 80, 8),
                                      table("d", 70, 8), table("e", 60, 8)},
                                     64);
  const Plan plan = memory_balanced_plan(config.model, 2, 1e9);
  check_plan(plan, config.model, "test");
  std::vector<int> rank(5);
  for (const Shard& shard : plan.shards) rank[static_cast<size_t>(shard.table)] = shard.rank;
  EXPECT_EQ(rank, (std::vector<int>{0, 1, 1, 0, 0}));
}

TEST(MemoryBalancedPlan, CutsLargeTablesByColumns) {
  const RunConfig config = config_of({table("a", 100, 6), table("b", 10, 6)}, 64);
  const Plan plan = memory_balanced_plan(config.model, 3, 200);
  check_plan(plan, config.model, "test");
  EXPECT_EQ(plan.shards.size(), 4u);  // 600 elements: four parts, but there are three ranks
  EXPECT_EQ(memory_balanced_plan(config.model, 1, 200).shards.size(), 2u);
}

TEST(MemoryBalancedPlan, KeepsATableOfTheLargestSizeWhole) {
  const RunConfig config = config_of({table("a", 100, 8), table("b", 101, 8)}, 64);
  EXPECT_EQ(memory_balanced_plan(config.model, 2, 800).shards.size(), 3u);
}

TEST(UnfusedStep, AddsItsCosts) {
  const nlohmann::json machine = {{"device", "cuda"},
                                  {"ranks_per_node", 2},
                                  {"memory_bytes_per_second", 1e18},
                                  {"local_bytes_per_second", 1e18},
                                  {"network_bytes_per_second", 1e18},
                                  {"fp32_products_per_second", 1e18}};
  const plan_test::TemporaryFile file(machine.dump());
  RunConfig config =
      config_of({table("a", 1000, 16, {3}), table("b", 50, 16), table("c", 7, 16, {2})}, 64,
                Strategy::kTable);
  config.model.interaction = DotConfig();
  config.sharding.machine = file.path();
  const Plan plan = memory_balanced_plan(config.model, 1, 1e9);
  const UnfusedCosts costs{1e-3, 1e-4, 5, 7};
  const double ids = 64 * 6;
  EXPECT_NEAR(simulate_unfused_step(config, plan, {0, 2, 0, false}, costs).step,
              1e-3 * ids + 1e-4 * ids * 16 + 3 * 5 + 3 * 7, 1e-6);
}

}  // namespace
}  // namespace dlrm::bench
