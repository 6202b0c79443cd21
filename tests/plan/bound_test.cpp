// The lower bound for the heaviest rank, and the divisions of tables that it considers.
#include "plan/bound.h"

#include "plan/division.h"
#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

/// Every grid of a table, and its copies.
std::vector<Division> all_divisions(const TableConfig& table, const CostModel& cost) {
  std::vector<Division> all;
  for (int columns = 1; columns <= std::min<int64_t>(table.dim, cost.world()); ++columns) {
    for (int rows = 1; rows <= std::min<int64_t>(table.rows, cost.world() / columns); ++rows) {
      Division division{{rows, columns}};
      for (const Shard& shard : cut_table(table, 0, division.cut)) {
        const double part = cost.shard(table, shard.rows.size(), shard.columns.size());
        division.part = std::max(division.part, part);
        division.total += part;
      }
      all.push_back(division);
    }
  }
  const double replica = cost.replica(table);
  all.push_back({{}, true, replica, replica * cost.world()});
  return all;
}

TEST(Divisions, TheCheapestOfAllIsFound) {
  for (const auto& [config, world] :
       {std::pair{odd_config(Strategy::kAuto), 13}, {kaggle_config(), 8}, {mlperf_config(), 24}}) {
    const CostModel cost(config, world, {});
    for (const TableConfig& table : config.model.tables) {
      const Divisions divisions(table, cost, MayBe::kCutOrCopied);
      const std::vector<Division> all = all_divisions(table, cost);
      const double whole = all.front().part;
      for (const double share : {2.0, 1.0, 0.9, 0.5, 0.3, 0.1, 0.03}) {
        double least = std::numeric_limits<double>::infinity();
        for (const Division& division : all) {
          if (division.part <= share * whole) least = std::min(least, division.total);
        }
        if (std::isinf(least)) continue;
        const Division found = divisions.cheapest(share * whole);
        EXPECT_LE(found.part, share * whole) << table.name << ", " << share;
        EXPECT_NEAR(found.total / least, 1, 1e-2) << table.name << ", " << share;
      }
    }
  }
}

TEST(Divisions, IfAllAreTooLargeTheMostCostlyPartAndTheMeanAreLeast) {
  const RunConfig config = config_of({table("t", 1000, 32, {100})}, 4096);
  const CostModel cost(config, 16, {});
  double least = std::numeric_limits<double>::infinity();
  for (const Division& division : all_divisions(config.model.tables[0], cost)) {
    least = std::min(least, division.part + division.total / 16);
  }
  const Division found = Divisions(config.model.tables[0], cost, MayBe::kCutOrCopied).cheapest(0);
  EXPECT_NEAR((found.part + found.total / 16) / least, 1, 1e-2);
}

TEST(Divisions, PartsFitTheBytes) {
  const RunConfig config = config_of({table("t", 1 << 20, 64)}, 64);
  const CostModel cost(config, 16, {});
  const double whole = cost.bytes(config.model.tables[0], 1 << 20, 64);
  const Divisions divisions(config.model.tables[0], cost, MayBe::kCut);
  for (const double share : {0.6, 0.3, 0.1}) {
    const Division found = divisions.cheapest(1, share * whole);
    EXPECT_LE(found.bytes, share * whole);
    EXPECT_GT(found.cut.parts(), 1 / share);
  }
}

TEST(Divisions, OfTablesThatDifferInOnePropertyAreTheirOwn) {
  const TableConfig base = table("base", 1 << 20, 64, {4, 2});
  std::vector<TableConfig> others(5, base);
  others[0].rows *= 2;
  others[1].dim *= 2;
  others[2].dtype = DType::kBFloat16;
  others[3].features[1].hotness = 9;
  others[4].features.push_back(base.features[1]);
  for (size_t t = 0; t < others.size(); ++t) others[t].name = fmt::format("other{}", t);
  RunConfig config = config_of({base}, 4096);
  config.model.tables.insert(config.model.tables.end(), others.begin(), others.end());
  const CostModel cost(config, 16, {});
  TableDivisions together(config, cost);
  for (const TableConfig& each : config.model.tables) together.add(each, MayBe::kCutOrCopied);
  const std::vector<Division> found = together.cheapest(0);
  ASSERT_EQ(found.size(), 6u);
  for (size_t t = 0; t < found.size(); ++t) {
    const Division own = Divisions(config.model.tables[t], cost, MayBe::kCutOrCopied).cheapest(0);
    EXPECT_EQ(found[t].total, own.total) << t;
    EXPECT_EQ(found[t].part, own.part) << t;
    if (t > 0) {
      EXPECT_NE(found[t].total, found[0].total) << t;
    }
  }
}

TEST(Bound, OfEqualTablesOnAsManyRanksIsATable) {
  std::vector<TableConfig> tables;
  for (int t = 0; t < 6; ++t) tables.push_back(table(fmt::format("t{}", t), 1000000, 64));
  const RunConfig config = config_of(tables, 4096);
  const CostModel cost(config, 6, {});
  const double whole = cost.shard(tables[0], tables[0].rows, tables[0].dim);
  EXPECT_NEAR(least_heaviest(config, cost) / whole, 1, 2e-3);
}

/// The second table cannot be cut, and copies of it cost as much on every rank.
TEST(Bound, OfATableThatCannotBeCutIsItsCost) {
  const RunConfig config = config_of({table("small", 100, 1), table("hot", 1, 1, {1000})}, 1 << 16);
  PlanOptions options;
  options.ranks_per_node = 1;
  const CostModel cost(config, 64, options);
  const TableConfig& hot = config.model.tables[1];
  const double least = std::min(cost.shard(hot, 1, 1), cost.replica(hot));
  EXPECT_GE(least_heaviest(config, cost), 0.998 * least);
}

/// One table is so hot that only copies make its work small. The others are whole on a rank each,
/// beside its copy. Copies of all of them would take longer.
TEST(Bound, OfATableThatIsCopiedLeavesLessForTheOthers) {
  std::vector<TableConfig> tables{table("hot", 1, 1, {320})};
  for (int t = 0; t < 60; ++t) tables.push_back(table(fmt::format("t{}", t), 1, 1, {64}));
  const RunConfig config = config_of(tables, 64);
  const CostModel cost(config, 64, {});
  const double copy = cost.replica(tables[0]), whole = cost.shard(tables[1], 1, 1);
  ASSERT_GT(cost.shard(tables[0], 1, 1), copy + whole);
  ASSERT_GT(copy + 60 * cost.replica(tables[1]), copy + whole);
  ASSERT_LT(copy + whole * 60 / 64, 0.98 * (copy + whole));
  EXPECT_NEAR(least_heaviest(config, cost) / (copy + whole), 1, 1e-3);
}

/// Twelve tables of hardly any work.
TEST(Bound, HasNoMorePartsThanTheTimeOfAShardAllows) {
  std::vector<TableConfig> tables;
  for (int t = 0; t < 12; ++t) tables.push_back(table(fmt::format("t{}", t), 1000, 4));
  const RunConfig config = config_of(tables, 1);
  for (const auto& [ranks, shards] : {std::pair{12, 1}, {11, 2}, {6, 2}, {5, 3}}) {
    const CostModel cost(config, ranks, {});
    const double least = least_heaviest(config, cost) / cost.shard_seconds();
    EXPECT_GE(least, 0.999 * shards) << ranks;
    EXPECT_LE(least, 1.1 * shards) << ranks;
  }
}

TEST(Bound, NoStrategyIsBelowIt) {
  for (const Strategy strategy : {Strategy::kAuto, Strategy::kTable, Strategy::kRow,
                                  Strategy::kColumn, Strategy::kGrid, Strategy::kDataParallel}) {
    for (const int world : {1, 7, 16}) {
      RunConfig config = mlperf_config();
      config.sharding.strategy = strategy;
      for (const RunConfig& each : {config, odd_config(strategy, 1000)}) {
        const Plan plan = make_plan(each, world);
        const PlanRatios ratios = plan_ratios(each, plan, {});
        EXPECT_GE(ratios.cost, 1 - 1e-6) << world;
        EXPECT_GE(ratios.memory, 1 - 1e-6) << world;
      }
    }
  }
}

/// One of two equal tables is on each rank, or both are on one.
TEST(Bound, RatiosAreThoseOfTheHeaviestRank) {
  RunConfig config = config_of({table("a", 1 << 22, 64), table("b", 1 << 22, 64)}, 64);
  const auto ratios = [&](int rank) {
    return plan_ratios(
        config, {2, {{0, {0, 1 << 22}, {0, 64}, 0}, {1, {0, 1 << 22}, {0, 64}, rank}}, {}}, {});
  };
  EXPECT_NEAR(ratios(1).cost, 1, 1e-2);
  EXPECT_NEAR(ratios(1).memory, 1, 1e-2);
  EXPECT_NEAR(ratios(0).cost, 2, 2e-2);
  EXPECT_NEAR(ratios(0).memory, 2, 2e-2);
}

}  // namespace
}  // namespace dlrm::plan_test
