#include <cmath>

#include "plan/bound.h"
#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

TEST(Auto, OneRankGetsEverything) {
  const Plan plan = make_plan(kaggle_config(), 1);
  EXPECT_EQ(plan.shards.size(), 26u);
  EXPECT_TRUE(plan.data_parallel.empty());
}

TEST(Auto, TinyTablesAreReplicatedAndLargeOnesAreNot) {
  const RunConfig config = kaggle_config();
  for (int world : {2, 8}) {
    const Plan plan = make_plan(config, world);
    for (size_t t = 0; t < config.model.tables.size(); ++t) {
      const int64_t rows = config.model.tables[t].rows;
      const bool replicated = is_data_parallel(plan, static_cast<int>(t));
      if (rows >= 32 && rows <= 100000) continue;
      EXPECT_EQ(replicated, rows < 32) << rows;
    }
  }
}

TEST(Auto, TablesStayWholeIfTheyBalance) {
  std::vector<TableConfig> tables;
  for (int t = 0; t < 16; ++t) tables.push_back(table(fmt::format("t{}", t), 1000000, 64));
  const Plan plan = make_plan(config_of(tables, 4096), 4);
  EXPECT_EQ(plan.shards.size(), 16u);
}

TEST(Auto, AWideTableThatDominatesIsCutByColumns) {
  std::vector<TableConfig> tables = {table("hot", 50000000, 128, {100})};
  for (int t = 0; t < 8; ++t) tables.push_back(table(fmt::format("t{}", t), 1000000, 16));
  const Plan plan = make_plan(config_of(tables, 4096), 4);
  const std::vector<Shard> hot = shards_of(plan, 0);
  EXPECT_GT(hot.size(), 1u);
  for (const Shard& shard : hot) EXPECT_GE(shard.columns.size(), 16);
}

TEST(Auto, ANarrowTableThatDominatesIsCutByRows) {
  std::vector<TableConfig> tables = {table("hot", 50000000, 16, {100})};
  for (int t = 0; t < 8; ++t) tables.push_back(table(fmt::format("t{}", t), 1000000, 16));
  const std::vector<Shard> hot = shards_of(make_plan(config_of(tables, 4096), 4), 0);
  EXPECT_GT(hot.size(), 1u);
  for (const Shard& shard : hot) EXPECT_EQ(shard.columns.size(), 16);
}

TEST(Auto, TablesWithMaxPoolingKeepAllTheirRows) {
  for (const int64_t dim : {1, 16, 128}) {
    std::vector<TableConfig> tables = {table("hot", 50000000, dim, {100, 1})};
    tables[0].features[1].pooling = Pooling::kMax;
    for (int t = 0; t < 8; ++t) tables.push_back(table(fmt::format("t{}", t), 1000000, 16));
    RunConfig config = config_of(tables, 4096);
    for (const double room : {0.0, 0x1p31, 0x1p34}) {
      for (const int on_node : {0, 2}) {
        const Plan plan = make_plan(config, 4, {room, on_node});
        for (const Shard& shard : shards_of(plan, 0)) EXPECT_EQ(shard.rows.size(), 50000000);
      }
    }
    config.sharding.tables["hot"] = Strategy::kRow;
    EXPECT_THROW(make_plan(config, 4), Error);
  }
}

/// Tables of one column, which fill the ranks only if rows are cut.
TEST(Auto, TablesWithMaxPoolingThatFitNoRankKeepAllTheirRows) {
  for (const int count : {3, 5, 7}) {
    std::vector<TableConfig> tables;
    for (int t = 0; t < count; ++t)
      tables.push_back(table(fmt::format("t{}", t), 40000000, 1, {9}));
    for (TableConfig& table : tables) table.features[0].pooling = Pooling::kMax;
    const RunConfig config = config_of(tables, 4096);
    for (const double room : {0.0, 0x1p26, 0x1p28, 0x1p29, 0x1p30}) {
      for (const Shard& shard : make_plan(config, 2, {room, 0}).shards) {
        EXPECT_EQ(shard.rows.size(), 40000000);
      }
    }
  }
}

TEST(Auto, ATableThatNoRankCanHoldIsCut) {
  std::vector<TableConfig> tables = {table("big", 40000000, 64)};
  for (int t = 0; t < 30; ++t) tables.push_back(table(fmt::format("t{}", t), 1000000, 64, {30}));
  RunConfig config = config_of(tables, 4096);
  config.train.sparse_optimizer.type = OptimizerRule::kSgd;
  const double room = 6.5 * 1024 * 1024 * 1024;  // the table is 9.5 GiB
  const Plan plan = make_plan(config, 4, {room, 0});
  EXPECT_GT(shards_of(plan, 0).size(), 1u);
  for (const RankMemory& memory : rank_memory(config, plan)) EXPECT_LE(memory.total(), room);
}

TEST(Auto, RanksAreFilledToNearlyAllTheirMemory) {
  RunConfig config = mlperf_config();
  const Plan unlimited = make_plan(config, 8);
  double all = 0;
  for (const RankMemory& memory : rank_memory(config, unlimited)) all += memory.total();
  const double room = 1.15 * all / 8;
  for (const RankMemory& memory : rank_memory(config, make_plan(config, 8, {room, 0}))) {
    EXPECT_LE(memory.total(), room);
  }
}

TEST(Auto, ColossalCanBePlannedForManyRanks) {
  const RunConfig config = colossal_config();
  for (const int world : {8, 129}) {
    const Plan plan = make_plan(config, world);
    EXPECT_NO_THROW(check_plan(plan, config.model, "plan"));
    EXPECT_LE(plan_ratios(config, plan, {}).cost, 1.255) << world;
  }
}

TEST(Auto, ThereMayBeMoreRanksThanTablesWithOneSample) {
  const RunConfig config = odd_config(Strategy::kAuto, 1);
  EXPECT_NO_THROW(check_plan(make_plan(config, 300), config.model, "plan"));
}

TEST(Auto, ReplicasTakeATwentiethOfTheMemory) {
  std::vector<TableConfig> tables;
  for (int t = 0; t < 10; ++t) tables.push_back(table(fmt::format("t{}", t), (8 << 20) / 512, 64));
  const RunConfig config = config_of(tables, 1 << 20);
  size_t before = 0;
  for (const double gib : {0.1, 0.5, 1.0, 100.0}) {
    const Plan plan = make_plan(config, 4, {gib * 0x1p30});
    EXPECT_LE(static_cast<double>(plan.data_parallel.size()) * (8 << 20), gib * 0x1p30 / 20) << gib;
    EXPECT_GE(plan.data_parallel.size(), before) << gib;
    before = plan.data_parallel.size();
  }
  EXPECT_EQ(before, 10u);
}

TEST(Auto, ShardsHaveTheRoomThatReplicasLeave) {
  RunConfig config = config_of(
      {table("copied", 8 << 20, 16), table("big", 12 << 20, 16), table("hot", 1000, 16, {2})},
      1 << 16);
  config.train.sparse_optimizer.type = OptimizerRule::kSgd;
  config.sharding.tables = {{"copied", Strategy::kDataParallel}, {"hot", Strategy::kTable}};
  // The replica needs 1 GiB with its gradients, `big` 0.75 GiB.
  const Plan loose = make_plan(config, 2);
  const std::vector<RankMemory> memory = rank_memory(config, loose);
  const double most = std::max(memory[0].total(), memory[1].total());
  const double mean = (memory[0].total() + memory[1].total()) / 2;
  PlanOptions options;
  options.rank_memory_bytes = (most + mean) / 2;
  EXPECT_FALSE(fits_memory(config, loose, options));
  EXPECT_TRUE(fits_memory(config, make_plan(config, 2, options), options));
}

TEST(CostModel, AShardOfHalfTheColumnsCostsMoreThanHalf) {
  const RunConfig config = mlperf_config();
  const CostModel cost(config, 8, {});
  for (const TableConfig& table : config.model.tables) {
    EXPECT_GT(2 * cost.shard(table, table.rows, 64), cost.shard(table, table.rows, 128));
  }
}

TEST(CostModel, BytesBetweenNodesPassASharedNetworkCard) {
  const RunConfig config = mlperf_config();
  const auto seconds = [&](int ranks_per_node) {
    PlanOptions options;
    options.ranks_per_node = ranks_per_node;
    return CostModel(config, 3, options).shard(config.model.tables[0], 1000, 128);
  };
  // Seconds for a byte to another rank, of 1, 2 and 3 ranks per node.
  const MachineSpeed speed;
  const double one = 1 / speed.network, three = 1 / speed.local;
  const double two = 0.5 / speed.local + 0.5 * 2 / speed.network;
  EXPECT_NEAR((seconds(2) - seconds(1)) / (seconds(3) - seconds(1)), (two - one) / (three - one),
              1e-6);
}

TEST(CostModel, AShardNeverCostsLessForMoreRows) {
  const RunConfig config = mlperf_config();
  const CostModel cost(config, 8, {});
  const TableConfig& table = config.model.tables[0];
  double before = 0;
  for (int64_t rows = 1; rows <= table.rows; rows = rows * 3 + 1) {
    const double seconds = cost.shard(table, rows, 128);
    EXPECT_GE(seconds, before);
    EXPECT_TRUE(std::isfinite(seconds));
    before = seconds;
  }
}

TEST(Auto, PlansFitTheMemoryThatTheMemoryTableCounts) {
  const RunConfig config = colossal_config();
  for (const auto& [ranks, gib] : {std::pair{128, 512.0}}) {
    PlanOptions options;
    options.rank_memory_bytes = gib * 0x1p30;
    const Plan plan = make_plan(config, ranks, options);
    for (const RankMemory& memory : rank_memory(config, plan)) {
      ASSERT_LE(memory.total(), options.rank_memory_bytes) << ranks;
    }
  }
}

/// Placed once more, with less room, they do not yet.
TEST(Auto, TablesArePlacedAgainUntilTheyFit) {
  const RunConfig config = load_config(DLRM_SOURCE "/configs/synthetic/large.yaml");
  PlanOptions options;
  options.rank_memory_bytes = 8 * 0x1p30;
  EXPECT_TRUE(fits_memory(config, make_plan(config, 234, options), options));
}

}  // namespace
}  // namespace dlrm::plan_test
