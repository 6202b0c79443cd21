// Partial vectors of row shards that are added within nodes.
#include "dlrm/plan/node_sums.h"

#include <nlohmann/json.hpp>

#include "dlrm/plan/simulate.h"

#include "plan/cost.h"
#include "plan/memory.h"
#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A table with long bags, cut by rows: shard i is on ranks[i].
Plan rows_on(const TableConfig& table, const std::vector<int>& ranks, int world) {
  Plan plan;
  plan.world = world;
  plan.ranks_per_node = 2;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const Range rows = part_of(table.rows, static_cast<int64_t>(i), ranks.size());
    plan.shards.push_back({0, rows, {0, table.dim}, ranks[i]});
  }
  sort_plan(plan);
  return plan;
}

std::vector<std::vector<int>> ranks_of(const std::vector<NodeSum>& sums) {
  std::vector<std::vector<int>> ranks;
  for (const NodeSum& sum : sums) {
    ranks.emplace_back();
    for (const Shard& shard : sum.shards) ranks.back().push_back(shard.rank);
  }
  return ranks;
}

std::vector<std::vector<int>> sums_of(const TableConfig& table, const Plan& plan,
                                      RoutingMode mode = RoutingMode::kExact) {
  return ranks_of(node_sums({table}, mode, plan));
}

TEST(NodeSums, AreOfTheShardsOfANodeInTheOrderOfTheirRows) {
  const TableConfig t = table("t", 1000, 16, {100});
  EXPECT_THAT(sums_of(t, rows_on(t, {1, 3, 0, 2}, 4)),
              ElementsAre(ElementsAre(1, 0), ElementsAre(3, 2)));
  EXPECT_THAT(sums_of(t, rows_on(t, {1, 2, 0}, 4)), ElementsAre(ElementsAre(1, 0)));
  EXPECT_THAT(sums_of(t, rows_on(t, {0, 2}, 4)), IsEmpty());
}

TEST(NodeSums, NeedAPlanWithNodes) {
  const TableConfig t = table("t", 1000, 16, {100});
  Plan plan = rows_on(t, {0, 1, 2, 3}, 4);
  ASSERT_THAT(sums_of(t, plan), SizeIs(2));
  for (const int ranks : {0, 1, 4, 5}) {
    plan.ranks_per_node = ranks;
    EXPECT_THAT(sums_of(t, plan), IsEmpty()) << ranks;
  }
}

TEST(NodeSums, OfShortBagsSpareTooLittle) {
  for (const auto& [hotness, sums] : {std::pair{1, 0u}, {2, 0u}, {4, 2u}}) {
    const TableConfig t = table("t", 1000, 16, {hotness});
    EXPECT_THAT(sums_of(t, rows_on(t, {0, 1, 2, 3}, 4)), SizeIs(sums)) << hotness;
    EXPECT_THAT(sums_of(t, rows_on(t, {0, 1, 2, 3}, 4), RoutingMode::kFixed), SizeIs(2));
  }
}

TEST(NodeSums, AreOfEqualColumnsAlone) {
  const TableConfig t = table("t", 1000, 16, {100});
  Plan plan;
  plan.world = 4;
  plan.ranks_per_node = 2;
  plan.shards = {{0, {0, 500}, {0, 8}, 0},
                 {0, {0, 500}, {8, 16}, 1},
                 {0, {500, 1000}, {0, 8}, 1},
                 {0, {500, 1000}, {8, 12}, 2},
                 {0, {500, 1000}, {12, 16}, 3}};
  const std::vector<NodeSum> sums = node_sums({t}, RoutingMode::kExact, plan);
  EXPECT_THAT(ranks_of(sums), ElementsAre(ElementsAre(0, 1)));
  EXPECT_EQ(sums[0].columns, (Range{0, 8}));
  EXPECT_EQ(sums[0].part(0), (Range{0, 4}));
  EXPECT_EQ(sums[0].part(1), (Range{4, 8}));
}

TEST(NodeSums, LeaveOutRanksWithSeveralShardsOfTheSameRows) {
  const TableConfig t = table("t", 1000, 16, {100});
  Plan plan;
  plan.world = 4;
  plan.ranks_per_node = 2;
  plan.shards = {{0, {0, 500}, {0, 8}, 0},
                 {0, {0, 500}, {8, 16}, 0},
                 {0, {500, 1000}, {0, 8}, 1},
                 {0, {500, 1000}, {8, 16}, 2}};
  EXPECT_THAT(sums_of(t, plan), IsEmpty());
}

/// What the ranks of a node send to other nodes for a table, in floats of a sample's vector.
TEST(NodeSums, SendEachBagOnceToOtherNodes) {
  const TableConfig t = table("t", 1000, 16, {100});
  const RunConfig config = config_of({t}, 64);
  Plan plan = rows_on(t, {0, 1, 2, 3}, 4);
  const auto pooled = [&] {
    double sum = 0;
    for (const RankLoad& load : rank_loads(config, plan)) {
      EXPECT_DOUBLE_EQ(load.pooled_sent_bytes, load.gradient_sent_bytes);
      sum += load.pooled_sent_bytes - load.node_pooled_bytes;
    }
    return sum;
  };
  const double with_sums = pooled();
  EXPECT_EQ(rank_loads(config, plan)[0].node_pooled_bytes, 64 * 8 * 4);
  plan.ranks_per_node = 0;
  EXPECT_DOUBLE_EQ(pooled(), 2 * with_sums);
}

TEST(NodeSums, AreTwoMoreExchangesOfASimulatedStep) {
  const std::string path = ::testing::TempDir() + "/machine_of_node_sums.json";
  for (const char* device : {"cuda", "cpu"}) {
    nlohmann::json machine = {{"device", device},
                              {"ranks_per_node", 2},
                              {"memory_bytes_per_second", 1e15},
                              {"local_bytes_per_second", 1e15},
                              {"network_bytes_per_second", 1e15},
                              {"fp32_products_per_second", 1e15},
                              {"local_exchange_seconds", 1e-3}};
    std::ofstream(path) << machine;
    RunConfig config = config_of({table("t", 1000, 16, {100})}, 64, Strategy::kRow);
    config.sharding.machine = path;
    config.device = device == std::string("cuda") ? DeviceKind::kCuda : DeviceKind::kCpu;
    const PlanOptions options{0, 2, 0, false};
    Plan plan = make_plan(config, 4, options);
    plan.ranks_per_node = 0;
    const StepPrediction without = simulate_step(config, plan, options);
    plan.ranks_per_node = 2;
    const StepPrediction with = simulate_step(config, plan, options);
    EXPECT_NEAR(with.step - without.step, 2e-3, 1e-9) << device;
    EXPECT_NEAR(with.exchange - without.exchange, 2e-3, 1e-9) << device;
    // In both directions, half of the columns of 64 vectors.
    EXPECT_GT(with.local_bytes, 2 * 64 * 4.0 * 8);
  }
  std::filesystem::remove(path);
}

TEST(NodeSums, NeedMemoryForPartialVectors) {
  const TableConfig t = table("t", 1000, 16, {100});
  const RunConfig config = config_of({t}, 64);
  Plan plan = rows_on(t, {0, 1, 2}, 4);
  const std::vector<RankMemory> with_sums = rank_memory(config, plan);
  plan.ranks_per_node = 0;
  const std::vector<RankMemory> without = rank_memory(config, plan);
  // Ranks 0 and 1 have 16 columns of partial vectors, send 8, receive 8, and return 8 instead
  // of 16. With their own, they add twice 8 columns. Every rank receives 16 columns less for its 16
  // samples.
  for (const size_t rank : {0, 1, 2, 3}) {
    EXPECT_EQ(with_sums[rank].exchange - without[rank].exchange,
              (rank < 2 ? 64 * 4 * (16 + 8 + 2 * 8 + 8 - 16) : 0) - 16 * 4 * 16)
        << rank;
  }
}

TEST(NodeSums, OfPlanFilesAreKept) {
  const RunConfig config = config_of({table("t", 1000, 16, {100})}, 64);
  const Plan plan = rows_on(config.model.tables[0], {0, 1, 2, 3}, 4);
  const std::string json = to_json(plan, config.model);
  EXPECT_THAT(json, HasSubstr("\"ranks_per_node\": 2"));
  EXPECT_EQ(parse_plan(json, "p", config.model, 4), plan);
  std::string bad = json;
  bad.replace(bad.find(": 2\n"), 3, ": -2");
  EXPECT_THAT(usage_error_of([&] { parse_plan(bad, "p", config.model, 4); }),
              HasSubstr("p: ranks_per_node: must be an integer from 0"));
}

TEST(PlannedNodes, SpareBytesBetweenNodesAtTheSameCost) {
  RunConfig config = mlperf_config();
  config.sharding.machine = DLRM_SOURCE "/configs/machines/epyc.json";
  const PlanOptions known{0, 8};
  Plan plan = make_plan(config, 64, known);
  EXPECT_EQ(plan.ranks_per_node, 8);
  const auto between = [&] {
    double sum = 0;
    for (const RankLoad& load : rank_loads(config, plan)) {
      sum += load.pooled_sent_bytes - load.node_pooled_bytes;
    }
    return sum;
  };
  const double with_sums = between();
  plan.ranks_per_node = 0;
  EXPECT_LT(with_sums, 0.95 * between());
}

TEST(PlannedNodes, AreNotThoseOfScatteredRanks) {
  RunConfig config = mlperf_config();
  config.sharding.machine = DLRM_SOURCE "/configs/machines/epyc.json";
  PlanOptions options{0, 8};
  options.scattered = true;
  EXPECT_EQ(make_plan(config, 64, options).ranks_per_node, 0);
}

TEST(PlannedNodes, ARowwiseRuleCutsSomeColumnsByRowsAlone) {
  RunConfig config = config_of({table("a", 3, 512, {20})}, 4096);
  const CostModel any = CostModel(config, 8, {0, 4}).of_nodes(4);
  EXPECT_GT(any.node_cut(config.model.tables[0], 3, 256).columns, 1);
  config.train.sparse_optimizer.type = OptimizerRule::kRowwiseAdagrad;
  const CostModel rowwise = CostModel(config, 8, {0, 4}).of_nodes(4);
  EXPECT_EQ(rowwise.node_cut(config.model.tables[0], 3, 256), (Cut{4, 1}));
}

TEST(PlannedNodes, PlansHaveShorterSteps) {
  RunConfig config = mlperf_config();
  config.sharding.machine = DLRM_SOURCE "/configs/machines/h200_dgx.json";
  PlanOptions known{0, 8};
  const Plan plan = make_plan(config, 64, known);
  known.scattered = true;
  const Plan apart = make_plan(config, 64, known);
  EXPECT_EQ(plan.ranks_per_node, 8);
  EXPECT_EQ(apart.ranks_per_node, 0);
  EXPECT_LT(simulate_step(config, plan, known).step,
            0.9 * simulate_step(config, apart, known).step);
}

}  // namespace
}  // namespace dlrm::plan_test
