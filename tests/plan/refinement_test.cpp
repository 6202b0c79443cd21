// Moving, swapping and cutting the pieces of a placement.
#include "plan/refinement.h"

#include "plan/balance.h"
#include "plan/shards.h"
#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// A model, whole tables on given ranks, and what the ranks have then.
struct Start {
  Start(std::vector<TableConfig> tables, int world, const std::vector<int>& ranks)
      : config(config_of(std::move(tables), 4096)),
        cost(config, world, {}),
        balance(world, 0),
        may_cut(config.model.tables.size(), 1) {
    for (size_t t = 0; t < config.model.tables.size(); ++t) {
      const TableConfig& table = config.model.tables[t];
      const Shard shard{static_cast<int>(t), {0, table.rows}, {0, table.dim}, ranks[t]};
      pieces.push_back({shard, cost.shard(table, table.rows, table.dim),
                        cost.bytes(table, table.rows, table.dim)});
      balance.add(ranks[t], pieces.back().seconds, pieces.back().bytes);
    }
  }
  Refinement refinement() const { return {config, cost, pieces, balance, may_cut}; }
  Plan plan(const Refinement& refined) const {
    Plan plan;
    plan.world = balance.world();
    for (const Piece& piece : refined.pieces()) plan.shards.push_back(piece.shard);
    sort_plan(plan);
    return plan;
  }

  RunConfig config;
  CostModel cost;
  Balance balance;
  std::vector<char> may_cut;
  std::vector<Piece> pieces;
};

std::vector<TableConfig> refined_tables(int count) {
  std::vector<TableConfig> tables;
  for (int t = 0; t < count; ++t) tables.push_back(table(fmt::format("t{}", t), 1 << 20, 64));
  return tables;
}

TEST(Refinement, WholePiecesMoveIfThatIsEnough) {
  const Start start(refined_tables(4), 4, {0, 0, 0, 0});
  Refinement refined = start.refinement();
  refined.lower_seconds(0, kNoLimit);
  EXPECT_EQ(refined.pieces().size(), 4u);
  EXPECT_EQ(refined.changes(), 3);
  EXPECT_DOUBLE_EQ(refined.most_seconds(), start.pieces[0].seconds);
}

/// Loads 3 + 3 and 2 + 2 become 3 + 2 and 3 + 2.
TEST(Refinement, PiecesAreSwapped) {
  Start start({table("a", 1000, 16, {30}), table("b", 1000, 16, {30}), table("c", 1000, 16, {20}),
               table("d", 1000, 16, {20})},
              2, {0, 0, 1, 1});
  start.may_cut.assign(4, 0);
  Refinement refined = start.refinement();
  refined.lower_seconds(0, kNoLimit);
  EXPECT_EQ(refined.changes(), 1);
  EXPECT_NEAR(refined.most_seconds(), start.pieces[0].seconds + start.pieces[2].seconds, 1e-12);
}

TEST(Refinement, APieceIsCutIfNoMoveHelps) {
  Start start({table("wide", 1000, 64, {30})}, 2, {0});
  Refinement refined = start.refinement();
  refined.lower_seconds(0, kNoLimit);
  EXPECT_EQ(refined.pieces().size(), 2u);
  EXPECT_LT(refined.most_seconds(), 0.8 * start.pieces[0].seconds);
  EXPECT_NO_THROW(check_plan(start.plan(refined), start.config.model, "plan"));
  start.may_cut.assign(1, 0);
  Refinement fixed = start.refinement();
  fixed.lower_seconds(0, kNoLimit);
  EXPECT_EQ(fixed.pieces().size(), 1u);
}

TEST(Refinement, NoRankGetsMoreThanTheLimit) {
  const Start start(refined_tables(8), 2, {0, 0, 0, 0, 0, 0, 1, 1});
  const double bytes = start.pieces[0].bytes;
  Refinement refined = start.refinement();
  refined.lower_seconds(0, 2.5 * bytes);
  EXPECT_LE(start.balance.bytes(0) + start.balance.bytes(1) - refined.most_bytes(), 2.5 * bytes);
  Refinement more = start.refinement();
  more.lower_seconds(0, kNoLimit);
  EXPECT_LT(more.most_seconds(), refined.most_seconds());
}

/// Columns of four floats are too narrow to be cut, so rows move.
TEST(Refinement, AsManyRowsMoveAsTheOtherRankHasRoomFor) {
  const Start start({table("narrow", 1 << 20, 4, {30})}, 2, {0});
  const double bytes = start.pieces[0].bytes, seconds = start.pieces[0].seconds;
  for (const double room : {0.1, 0.3, 0.7}) {
    Refinement refined = start.refinement();
    refined.lower_seconds(0, room * bytes);
    ASSERT_EQ(refined.pieces().size(), 2u) << room;
    const double moved = std::min(room, 0.5);
    EXPECT_NEAR(refined.pieces()[1].bytes / bytes, moved, 0.05) << room;
    EXPECT_NEAR(refined.most_seconds() / seconds, 1 - moved, 0.05) << room;
  }
}

TEST(Refinement, BytesAreSpreadWithinTheSeconds) {
  const Start start({table("large", 50000000, 16), table("hot", 1000, 16, {100})}, 2, {0, 1});
  const double seconds = std::max(start.pieces[0].seconds, start.pieces[1].seconds);
  Refinement refined = start.refinement();
  refined.lower_bytes(0, seconds);
  EXPECT_EQ(refined.most_bytes(), start.pieces[0].bytes) << "the hot table fills its rank";
  refined.lower_bytes(0, 1.3 * seconds);
  EXPECT_LT(refined.most_bytes(), 0.9 * start.pieces[0].bytes);
  EXPECT_LE(refined.most_seconds(), 1.3 * seconds);
  EXPECT_NO_THROW(check_plan(start.plan(refined), start.config.model, "plan"));
}

/// Rank 0 has a table with many rows, rank 1 half of one with many lookups, in so many seconds that
/// rank 0 has this share of them.
Start lopsided(double share) {
  const std::vector<int64_t> features(40, 1);
  Start start({table("large", 1 << 20, 64), table("hot", 2000, 64, features)}, 2, {0, 1});
  Piece& hot = start.pieces[1];
  hot.shard.rows = {0, 1000};
  hot.seconds = start.cost.shard(start.config.model.tables[1], 1000, 64);
  hot.bytes = start.cost.bytes(start.config.model.tables[1], 1000, 64);
  start.balance = Balance(2, 0);
  start.balance.add(0, share * hot.seconds, start.pieces[0].bytes);
  start.balance.add(1, hot.seconds, hot.bytes);
  return start;
}

TEST(Refinement, PartsAreExchangedIfTheLightRankHasAllSecondsThatItMay) {
  const Start start = lopsided(0.9);
  const double seconds = start.pieces[1].seconds;
  Refinement refined = start.refinement();
  refined.lower_bytes(0, seconds);
  EXPECT_EQ(refined.changes(), 0);
  const double bytes = refined.most_bytes();
  refined.trade_bytes(0, seconds);
  EXPECT_EQ(refined.pieces().size(), 4u);
  EXPECT_LT(refined.most_bytes(), 0.7 * bytes);
  EXPECT_LE(refined.most_seconds(), seconds);
}

TEST(Refinement, NoPartsAreExchangedThatCostTooMuchOrMayNotBeCut) {
  const Start full = lopsided(1);
  Refinement tight = full.refinement();
  tight.trade_bytes(0, full.pieces[1].seconds);
  EXPECT_EQ(tight.changes(), 0);
  for (const std::vector<char>& may_cut : {std::vector<char>{1, 0}, {0, 1}}) {
    Start start = lopsided(0.9);
    start.may_cut = may_cut;
    Refinement fixed = start.refinement();
    fixed.trade_bytes(0, start.pieces[1].seconds);
    EXPECT_EQ(fixed.changes(), 0);
  }
}

/// Of the three ranks of a table the middle one may have no more seconds.
TEST(Refinement, RowsMoveToARowShardOfTheSameColumns) {
  Start start({table("rows", 1 << 20, 64)}, 3, {0});
  start.pieces.clear();
  start.balance = Balance(3, 0);
  const TableConfig& rows = start.config.model.tables[0];
  const int64_t ends[] = {0, 700000, 750000, rows.rows};
  for (int rank = 0; rank < 3; ++rank) {
    const Shard shard{0, {ends[rank], ends[rank + 1]}, {0, 64}, rank};
    const double seconds = start.cost.shard(rows, shard.rows.size(), 64);
    start.pieces.push_back({shard, seconds, start.cost.bytes(rows, shard.rows.size(), 64)});
    start.balance.add(rank, seconds, start.pieces.back().bytes);
  }
  const double most = start.pieces[0].seconds;
  start.balance.add(1, most - start.pieces[1].seconds, 0);
  Refinement refined = start.refinement();
  refined.lower_bytes(0, most);
  EXPECT_EQ(refined.changes(), 0);
  refined.trade_bytes(0, most);
  ASSERT_EQ(refined.pieces().size(), 3u) << "none is cut";
  EXPECT_NO_THROW(check_plan(start.plan(refined), start.config.model, "plan"));
  const auto rows_on = [&](size_t i) { return refined.pieces()[i].shard.rows.size(); };
  EXPECT_EQ(rows_on(1), 50000);
  EXPECT_NEAR(static_cast<double>(rows_on(0)) / static_cast<double>(rows_on(2)), 1, 0.02);
  EXPECT_LE(refined.most_seconds(), most);
}

/// Each rank has much of one table and little of the other. Rows of both are exchanged, since the
/// second rank may have no more seconds.
TEST(Refinement, RowsOfTwoStripsAreExchanged) {
  Start start = lopsided(1);
  start.pieces.clear();
  start.balance = Balance(2, 0);
  const int64_t on_first[] = {1000000, 400};
  for (size_t t = 0; t < 2; ++t) {
    const TableConfig& table = start.config.model.tables[t];
    for (int rank = 0; rank < 2; ++rank) {
      const Range rows{rank == 0 ? 0 : on_first[t], rank == 0 ? on_first[t] : table.rows};
      const Shard shard{static_cast<int>(t), rows, {0, 64}, rank};
      const double seconds = start.cost.shard(table, rows.size(), 64);
      start.pieces.push_back({shard, seconds, start.cost.bytes(table, rows.size(), 64)});
      start.balance.add(rank, seconds, start.pieces.back().bytes);
    }
  }
  const double seconds = start.balance.max_load(), bytes = start.balance.bytes(0);
  ASSERT_GT(start.balance.load(1), start.balance.load(0));
  Refinement refined = start.refinement();
  refined.trade_bytes(0, seconds);
  EXPECT_EQ(refined.pieces().size(), 4u);
  EXPECT_LT(refined.most_bytes(), 0.6 * bytes);
  EXPECT_LE(refined.most_seconds(), seconds);
  EXPECT_NO_THROW(check_plan(start.plan(refined), start.config.model, "plan"));
}

/// On a GPU the row-wise rule needs this.
TEST(Refinement, WithARowWiseRuleColumnShardsHaveTheSameRows) {
  for (const int world : {3, 8, 33, 64}) {
    RunConfig config = mlperf_config();
    config.device = DeviceKind::kCuda;
    config.train.sparse_optimizer.type = OptimizerRule::kRowwiseAdagrad;
    const Plan plan = make_plan(config, world);
    for (size_t t = 0; t < config.model.tables.size(); ++t) {
      const std::vector<Shard> shards = shards_of(plan, static_cast<int>(t));
      for (const Shard& a : shards) {
        for (const Shard& b : shards) {
          const bool apart = a.rows.end <= b.rows.begin || b.rows.end <= a.rows.begin;
          EXPECT_TRUE(apart || a.rows == b.rows) << world << " ranks, table " << t;
        }
      }
    }
  }
}

}  // namespace
}  // namespace dlrm::plan_test
