// Filling ranks one after the other with rows.
#include "plan/rank_fill.h"

#include "plan/shards.h"
#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

/// Whole tables as strips.
std::vector<Shard> strips_of(const RunConfig& config) {
  std::vector<Shard> strips;
  for (size_t t = 0; t < config.model.tables.size(); ++t) {
    const TableConfig& table = config.model.tables[t];
    strips.push_back({static_cast<int>(t), {0, table.rows}, {0, table.dim}, 0});
  }
  return strips;
}

struct Sums {
  double seconds = 0, bytes = 0, most_seconds = 0, most_bytes = 0;
};
Sums fill_sums_of(const std::vector<Piece>& pieces, int world) {
  std::vector<Sums> ranks(static_cast<size_t>(world));
  Sums all;
  for (const Piece& piece : pieces) {
    Sums& rank = ranks[static_cast<size_t>(piece.shard.rank)];
    rank.seconds += piece.seconds;
    rank.bytes += piece.bytes;
    all.seconds += piece.seconds;
    all.bytes += piece.bytes;
  }
  for (const Sums& rank : ranks) {
    all.most_seconds = std::max(all.most_seconds, rank.seconds);
    all.most_bytes = std::max(all.most_bytes, rank.bytes);
  }
  return all;
}

Plan plan_of(const std::vector<Piece>& pieces, int world) {
  Plan plan;
  plan.world = world;
  for (const Piece& piece : pieces) plan.shards.push_back(piece.shard);
  sort_plan(plan);
  return plan;
}

/// A table with most of the rows, and one with most of the lookups.
RunConfig rows_and_lookups() {
  return config_of({table("rows", 1 << 20, 16, {2}), table("lookups", 60000, 16, {50})}, 4096);
}

TEST(RankFill, RanksHaveEqualSecondsAndBytesOfDifferentTables) {
  const RunConfig config = rows_and_lookups();
  for (const int world : {2, 5, 16}) {
    const CostModel cost(config, world, {});
    const Balance start(world, 0);
    const RankFill fill(config, cost, start, strips_of(config));
    // What two shards on each rank need altogether.
    double seconds = 0, bytes = 0;
    for (const TableConfig& each : config.model.tables) {
      seconds += cost.shard(each, each.rows / world, 16);
      bytes += cost.bytes(each, each.rows / world, 16);
    }
    const auto pieces = fill.within(1.05 * seconds, 1.1 * bytes);
    ASSERT_TRUE(pieces) << world;
    const Sums sums = fill_sums_of(*pieces, world);
    EXPECT_LE(sums.most_seconds, 1.05 * seconds) << world;
    EXPECT_LE(sums.most_bytes, 1.1 * bytes) << world;
    EXPECT_NO_THROW(check_plan(plan_of(*pieces, world), config.model, "plan"));
    EXPECT_LE(pieces->size(), static_cast<size_t>(2 * world + 1));
  }
}

TEST(RankFill, FindsNoPlanIfThereIsTooLittleOfEither) {
  const RunConfig config = rows_and_lookups();
  const CostModel cost(config, 4, {});
  const Balance start(4, 0);
  const RankFill fill(config, cost, start, strips_of(config));
  const auto pieces = fill.within(1, 1e12);
  ASSERT_TRUE(pieces);
  const Sums sums = fill_sums_of(*pieces, 4);
  EXPECT_TRUE(fill.within(1.1 * sums.seconds, 1.1 * sums.bytes));
  EXPECT_FALSE(fill.within(0.2 * sums.seconds, sums.bytes));
  EXPECT_FALSE(fill.within(sums.seconds, 0.2 * sums.bytes));
}

/// Rank 0 has nearly all that it may have.
TEST(RankFill, CountsWhatRanksHaveAlready) {
  const RunConfig config = rows_and_lookups();
  const CostModel cost(config, 3, {});
  Balance start(3, 0);
  const double seconds = cost.shard(config.model.tables[1], 60000, 16);
  const double bytes = cost.bytes(config.model.tables[0], 1 << 20, 16);
  start.add(0, 0.9 * seconds, 0.1 * bytes);
  const auto pieces = RankFill(config, cost, start, strips_of(config)).within(seconds, bytes);
  ASSERT_TRUE(pieces);
  double first = 0;
  for (const Piece& piece : *pieces) first += piece.shard.rank == 0 ? piece.seconds : 0;
  EXPECT_LE(first, 0.1 * seconds);
}

/// A rank has time for two small parts. Small tables fill ranks alone, and the little that is left
/// of each goes beside rows of a large one. Otherwise many ranks would have parts of three tables.
TEST(RankFill, WhatIsLeftOfSmallTablesGoesBesideLargeOnes) {
  const RunConfig config = load_config(DLRM_SOURCE "/configs/bench/kaggle.yaml", {});
  constexpr int kWorld = 64;
  const CostModel cost(config, kWorld, {});
  const Balance start(kWorld, 0);
  const std::vector<Shard> strips = strips_of(config);
  double bytes = 0;
  for (const TableConfig& each : config.model.tables)
    bytes += cost.bytes(each, each.rows, each.dim);
  const double seconds = 3.6 * cost.shard_seconds(), mean = bytes / kWorld;
  const auto pieces = RankFill(config, cost, start, strips).within(seconds, 1.75 * mean);
  ASSERT_TRUE(pieces);
  const Sums sums = fill_sums_of(*pieces, kWorld);
  EXPECT_LE(sums.most_seconds, seconds);
  EXPECT_LE(sums.most_bytes, 1.75 * mean);
  EXPECT_NO_THROW(check_plan(plan_of(*pieces, kWorld), config.model, "plan"));
}

/// Three ranks would have a row each of 13, and nothing else. Whole rows leave no time for others.
TEST(RankFill, HalvesOfTheLastRowGoBesideLargeTablesUnlessRowsMustBeWhole) {
  constexpr int kWorld = 64;
  for (const char* type : {"sgd", "rowwise_adagrad"}) {
    const RunConfig config = load_config(DLRM_SOURCE "/configs/bench/gpu/parity.yaml",
                                         {fmt::format("train.sparse_optimizer.type={}", type)});
    const CostModel cost(config, kWorld, {});
    const Balance start(kWorld, 0);
    std::vector<Shard> strips = strips_of(config);
    strips.back().columns = {0, 8};
    strips.push_back(strips.back());
    strips.back().columns = {8, 16};
    double bytes = 0;
    for (const TableConfig& each : config.model.tables) {
      bytes += cost.bytes(each, each.rows, each.dim);
    }
    const double seconds = 1.002 * cost.shard(config.model.tables.back(), 1, 8);
    const RankFill fill(config, cost, start, strips);
    int most_halves = 0;
    for (double room = 1.3; room < 2; room += 0.02) {
      const auto pieces = fill.within(seconds, room * bytes / kWorld);
      if (!pieces) continue;
      EXPECT_LE(fill_sums_of(*pieces, kWorld).most_seconds, seconds);
      EXPECT_NO_THROW(check_plan(plan_of(*pieces, kWorld), config.model, "plan"));
      int halves = 0;
      for (const Piece& piece : *pieces) {
        const TableConfig& cut = config.model.tables[static_cast<size_t>(piece.shard.table)];
        halves += cut.rows == 13 && piece.shard.columns.size() == 8;
      }
      most_halves = std::max(most_halves, halves);
    }
    EXPECT_EQ(most_halves, std::string(type) == "sgd" ? 6 : 0) << type;
  }
}

/// A row of the sparsest table takes almost all the time of a rank, so that none fits beside rows
/// of the first table.
TEST(RankFill, ATableOfFewRowsDoesNotKeepOthersFromDenseRows) {
  const RunConfig config = config_of({table("rows", 1 << 20, 16, {2}),
                                      table("lookups", 60000, 16, {50}), table("two", 2, 16, {33})},
                                     4096);
  constexpr int kWorld = 6;
  const CostModel cost(config, kWorld, {});
  const Balance start(kWorld, 0);
  const std::vector<TableConfig>& tables = config.model.tables;
  // Four ranks with a quarter of each of the first two tables, and two with a row of the last.
  const double seconds = 1.05 * (cost.shard(tables[0], tables[0].rows / 4, 16) +
                                 cost.shard(tables[1], tables[1].rows / 4, 16));
  const double bytes = 1.1 * (cost.bytes(tables[0], tables[0].rows / 4, 16) +
                              cost.bytes(tables[1], tables[1].rows / 4, 16));
  ASSERT_LE(cost.shard(tables[2], 1, 16), seconds);
  ASSERT_GT(cost.shard(tables[2], 1, 16), 0.8 * seconds);
  const auto pieces = RankFill(config, cost, start, strips_of(config)).within(seconds, bytes);
  ASSERT_TRUE(pieces);
  EXPECT_NO_THROW(check_plan(plan_of(*pieces, kWorld), config.model, "plan"));
}

/// Both halves of the columns would fit on a rank.
TEST(RankFill, ARankHasOnePartOfATable) {
  const RunConfig config = config_of({table("wide", 1000, 32, {4}), table("b", 1000, 16)}, 4096);
  const CostModel cost(config, 4, {});
  const Balance start(4, 0);
  const std::vector<Shard> strips = {
      {0, {0, 1000}, {0, 16}, 0}, {0, {0, 1000}, {16, 32}, 0}, {1, {0, 1000}, {0, 16}, 0}};
  const auto pieces = RankFill(config, cost, start, strips).within(1, 1e12);
  ASSERT_TRUE(pieces);
  EXPECT_EQ(pieces->size(), 3u);
  std::vector<int> of_wide;
  for (const Piece& piece : *pieces) {
    if (piece.shard.table == 0) of_wide.push_back(piece.shard.rank);
  }
  EXPECT_EQ(of_wide, (std::vector<int>{0, 1}));
}

}  // namespace
}  // namespace dlrm::plan_test
