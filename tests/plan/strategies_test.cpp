#include <set>
#include <tuple>

#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

/// Checks that exactly one shard holds each cell of each table, by counting.
void expect_each_cell_once(const Plan& plan, const ModelConfig& model) {
  for (size_t t = 0; t < model.tables.size(); ++t) {
    const TableConfig& table = model.tables[t];
    std::vector<int> held(static_cast<size_t>(table.rows * table.dim), 0);
    const bool replicated = is_data_parallel(plan, static_cast<int>(t));
    if (replicated) std::fill(held.begin(), held.end(), 1);
    for (const Shard& shard : shards_of(plan, static_cast<int>(t))) {
      ASSERT_GE(shard.rank, 0);
      ASSERT_LT(shard.rank, plan.world);
      ASSERT_GT(shard.rows.size(), 0);
      ASSERT_GT(shard.columns.size(), 0);
      for (int64_t r = shard.rows.begin; r < shard.rows.end; ++r) {
        for (int64_t c = shard.columns.begin; c < shard.columns.end; ++c) {
          ++held.at(static_cast<size_t>(r * table.dim + c));
        }
      }
    }
    for (int count : held) ASSERT_EQ(count, 1) << table.name;
  }
}

class EveryStrategyAndWorld : public ::testing::TestWithParam<std::tuple<Strategy, int>> {};

TEST_P(EveryStrategyAndWorld, EachCellIsInOneShard) {
  const auto [strategy, world] = GetParam();
  const RunConfig config = odd_config(strategy);
  const Plan plan = make_plan(config, world);
  EXPECT_EQ(plan.world, world);
  expect_each_cell_once(plan, config.model);
  EXPECT_NO_THROW(check_plan(plan, config.model, "plan"));
}

TEST_P(EveryStrategyAndWorld, ShardsAreInOrder) {
  const auto [strategy, world] = GetParam();
  const Plan plan = make_plan(odd_config(strategy), world);
  const auto key = [](const Shard& s) {
    return std::make_tuple(s.rank, s.table, s.rows.begin, s.columns.begin);
  };
  for (size_t i = 1; i < plan.shards.size(); ++i) {
    EXPECT_LT(key(plan.shards[i - 1]), key(plan.shards[i]));
  }
}

TEST_P(EveryStrategyAndWorld, EveryIdIsLookedUpAtLeastOnce) {
  const auto [strategy, world] = GetParam();
  const RunConfig config = odd_config(strategy);
  double lookups = 0;
  for (const RankLoad& load : rank_loads(config, make_plan(config, world))) {
    lookups += load.lookups;
  }
  EXPECT_GE(lookups * (1 + 1e-12), 37 * (1 + 3 + 11 + 2 + 1 + 8));
}

INSTANTIATE_TEST_SUITE_P(Plans, EveryStrategyAndWorld,
                         ::testing::Combine(::testing::Values(Strategy::kAuto, Strategy::kTable,
                                                              Strategy::kRow, Strategy::kColumn,
                                                              Strategy::kGrid,
                                                              Strategy::kDataParallel),
                                            ::testing::Values(1, 2, 3, 5, 8, 129)));

TEST(TableStrategy, TablesStayWhole) {
  const Plan plan = make_plan(odd_config(Strategy::kTable), 3);
  EXPECT_EQ(plan.shards.size(), 6u);
  EXPECT_TRUE(plan.data_parallel.empty());
}

TEST(RowStrategy, EachRankGetsANearlyEqualPartOfTheRows) {
  const Plan plan = make_plan(config_of({table("t", 10, 4)}, 8, Strategy::kRow), 4);
  const std::vector<Shard> expected = {{0, {0, 2}, {0, 4}, 0},
                                       {0, {2, 5}, {0, 4}, 1},
                                       {0, {5, 7}, {0, 4}, 2},
                                       {0, {7, 10}, {0, 4}, 3}};
  EXPECT_EQ(plan.shards, expected);
}

TEST(RowStrategy, ATableOfThreeRowsIsOnThreeRanks) {
  const Plan plan = make_plan(config_of({table("t", 3, 4)}, 8, Strategy::kRow), 8);
  std::set<int> ranks;
  for (const Shard& shard : plan.shards) {
    EXPECT_EQ(shard.rows.size(), 1);
    ranks.insert(shard.rank);
  }
  EXPECT_EQ(ranks.size(), 3u);
}

TEST(RowStrategy, RowsOfTinyTablesAreOnDifferentRanks) {
  const RunConfig config = config_of({table("a", 2, 4), table("b", 2, 4)}, 8, Strategy::kRow);
  std::set<int> ranks;
  for (const Shard& shard : make_plan(config, 4).shards) ranks.insert(shard.rank);
  EXPECT_EQ(ranks.size(), 4u);
}

TEST(ColumnStrategy, EachRankGetsAPartOfTheColumns) {
  const Plan plan = make_plan(config_of({table("t", 10, 7)}, 8, Strategy::kColumn), 3);
  const std::vector<Shard> expected = {
      {0, {0, 10}, {0, 2}, 0}, {0, {0, 10}, {2, 4}, 1}, {0, {0, 10}, {4, 7}, 2}};
  EXPECT_EQ(plan.shards, expected);
}

TEST(ColumnStrategy, ThereAreNoMoreShardsThanColumns) {
  EXPECT_EQ(make_plan(config_of({table("t", 10, 5)}, 8, Strategy::kColumn), 8).shards.size(), 5u);
}

TEST(GridStrategy, SixRanksAreTwoByThree) {
  const Plan plan = make_plan(config_of({table("t", 10, 6)}, 8, Strategy::kGrid), 6);
  ASSERT_EQ(plan.shards.size(), 6u);
  EXPECT_EQ(plan.shards[0], (Shard{0, {0, 5}, {0, 2}, 0}));
  EXPECT_EQ(plan.shards[4], (Shard{0, {5, 10}, {2, 4}, 4}));
}

TEST(GridStrategy, ThereAreNoMorePartsThanColumns) {
  const Plan plan = make_plan(config_of({table("t", 100, 2)}, 8, Strategy::kGrid), 12);
  ASSERT_EQ(plan.shards.size(), 12u);
  EXPECT_EQ(plan.shards[1].columns, (Range{1, 2}));
}

TEST(DataParallelStrategy, EveryTableIsReplicated) {
  const Plan plan = make_plan(odd_config(Strategy::kDataParallel), 3);
  EXPECT_TRUE(plan.shards.empty());
  EXPECT_EQ(plan.data_parallel, (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST(Overrides, AnOverrideAppliesToItsTableOnly) {
  RunConfig config = odd_config(Strategy::kTable);
  config.sharding.tables = {
      {"long", Strategy::kRow}, {"wide", Strategy::kColumn}, {"one_row", Strategy::kDataParallel}};
  const Plan plan = make_plan(config, 4);
  EXPECT_EQ(plan.data_parallel, (std::vector<int>{0}));
  EXPECT_EQ(shards_of(plan, 1).size(), 1u);
  EXPECT_EQ(shards_of(plan, 2).size(), 1u);
  EXPECT_EQ(shards_of(plan, 3).size(), 1u);
  ASSERT_EQ(shards_of(plan, 4).size(), 4u);
  EXPECT_EQ(shards_of(plan, 4)[0].columns, (Range{0, 12}));
  ASSERT_EQ(shards_of(plan, 5).size(), 4u);
  EXPECT_EQ(shards_of(plan, 5)[0].rows, (Range{0, 252}));
}

TEST(Overrides, AnOverrideOfAnUnknownTableIsRefused) {
  RunConfig config = odd_config(Strategy::kTable);
  config.sharding.tables = {{"lnog", Strategy::kRow}};
  EXPECT_THAT(usage_error_of([&] { make_plan(config, 2); }),
              ::testing::HasSubstr("sharding.tables.lnog"));
}

TEST(ShardingPlan, ANamedPlanIsUsedUnchanged) {
  RunConfig config = odd_config(Strategy::kAuto);
  const Plan rows = make_plan(odd_config(Strategy::kRow), 3);
  const TemporaryFile file(to_json(rows, config.model));
  config.sharding.plan = file.path();
  EXPECT_EQ(make_plan(config, 3), rows);
}

}  // namespace
}  // namespace dlrm::plan_test
