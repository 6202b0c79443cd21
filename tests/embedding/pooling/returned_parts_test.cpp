// The exchanges in which owners return the vectors of their shards, and the types of these.
#include "dlrm/wire/returned_parts.h"

#include <gtest/gtest.h>

#include "embedding/tables/returned_shards.h"

namespace dlrm {
namespace {

TableConfig table_of(const std::string& name, int64_t hotness, Pooling pooling = Pooling::kSum) {
  return {name, name, 100, 8, DType::kFloat32, {{name, hotness, pooling}}};
}

/// One shard of each table, on these ranks.
EmbeddingLayout layout_of(const std::vector<TableConfig>& tables, const std::vector<int>& ranks) {
  Plan plan;
  plan.world = 2;
  for (size_t t = 0; t < tables.size(); ++t) {
    plan.shards.push_back({static_cast<int>(t), {0, 100}, {0, 8}, ranks[t]});
  }
  return {tables, plan, RoutingMode::kExact};
}

ReturnedParts parts_of(const EmbeddingLayout& layout, bool rounds, int most) {
  return {returned_shards(layout, rounds), most};
}

/// The 35 vectors that rank 1 reads and writes hide the exchange of two shards of rank 0.
TEST(ReturnedParts, TheShardsWithTheFewestIdsAreReturnedFirst) {
  const EmbeddingLayout layout = layout_of(
      {table_of("a", 1), table_of("b", 24), table_of("c", 2), table_of("d", 30), table_of("e", 3)},
      {0, 0, 0, 1, 1});
  const ReturnedParts parts = parts_of(layout, false, 2);
  EXPECT_EQ(parts.count(), 2);
  EXPECT_EQ(parts.part_of(0, 0), 0);
  EXPECT_EQ(parts.part_of(0, 1), 1);
  EXPECT_EQ(parts.part_of(0, 2), 0);  // 3 ids, 2 vectors, 2 · 9 for the link: 23 of 35
  EXPECT_EQ(parts.part_of(1, 0), 1);
  EXPECT_EQ(parts.part_of(1, 1), 0);
  EXPECT_EQ(parts.shard(0, 1).work(), 8 * (24 + 1));
  const ReturnedParts one = parts_of(layout, false, 1);
  EXPECT_EQ(one.count(), 1);
  EXPECT_EQ(one.part_of(0, 1), 0);
}

TEST(ReturnedParts, Bf16TravelsTwiceAsFast) {
  // All lookups of rank 0 take as long as the exchange of one vector in fp32.
  const EmbeddingLayout layout =
      layout_of({table_of("a", 1), table_of("b", 6), table_of("c", 3)}, {0, 0, 1});
  EXPECT_EQ(parts_of(layout, false, 2).count(), 1);
  const ReturnedParts parts = parts_of(layout, true, 2);
  EXPECT_EQ(parts.count(), 2);
  EXPECT_EQ(parts.part_of(0, 0), 0);
  EXPECT_EQ(parts.part_of(0, 1), 1);
}

TEST(ReturnedParts, VectorsOfARankTravelWhileAnotherRankLooksUp) {
  const EmbeddingLayout layout =
      layout_of({table_of("a", 1), table_of("b", 2), table_of("c", 40)}, {0, 0, 1});
  const ReturnedParts parts = parts_of(layout, false, 2);
  EXPECT_EQ(parts.count(), 2);
  EXPECT_EQ(parts.part_of(0, 0), 0);
  EXPECT_EQ(parts.part_of(0, 1), 0);
  EXPECT_EQ(parts.part_of(1, 0), 1);
}

TEST(ReturnedParts, AShardWhoseVectorsWouldArriveLateDoesNotKeepOthersBack) {
  TableConfig wide = table_of("wide", 1);
  wide.dim = 40;
  std::vector<TableConfig> tables{wide, table_of("narrow", 2), table_of("c", 40)};
  Plan plan;
  plan.world = 2;
  plan.shards = {{0, {0, 100}, {0, 40}, 0}, {1, {0, 100}, {0, 8}, 0}, {2, {0, 100}, {0, 8}, 1}};
  const ReturnedParts parts = parts_of({tables, plan, RoutingMode::kExact}, false, 2);
  EXPECT_EQ(parts.count(), 2);
  EXPECT_EQ(parts.part_of(0, 0), 1);
  EXPECT_EQ(parts.part_of(0, 1), 0);
}

TEST(ReturnedParts, ShortLookupsAreNotDivided) {
  // The exchange of a vector of each rank would be hidden.
  std::vector<TableConfig> tables{table_of("a", 1), table_of("b", 11)};
  std::vector<int> ranks{0, 0};
  for (int t = 0; t < 5; ++t) {
    tables.push_back(table_of("more " + std::to_string(t), 1));
    ranks.push_back(1);
  }
  EXPECT_EQ(parts_of(layout_of(tables, ranks), false, 2).count(), 2);  // 17 ids of 7 vectors
  for (int t = 5; t < 10; ++t) {
    tables.push_back(table_of("more " + std::to_string(t), 1));
    ranks.push_back(1);
  }
  EXPECT_EQ(parts_of(layout_of(tables, ranks), false, 2).count(), 1);  // 22 of 12
}

TEST(ReturnedParts, SumsAndDividedVectorsAreNotRounded) {
  std::vector<TableConfig> tables{table_of("a", 3), table_of("b", 3, Pooling::kMean),
                                  table_of("c", 3), table_of("d", 3)};
  Plan plan;
  plan.world = 2;
  plan.shards = {{0, {0, 100}, {0, 8}, 0},  {1, {0, 100}, {0, 8}, 0}, {2, {0, 50}, {0, 8}, 0},
                 {2, {50, 100}, {0, 8}, 1}, {3, {0, 100}, {0, 3}, 1}, {3, {0, 100}, {3, 8}, 1}};
  const EmbeddingLayout layout(tables, plan, RoutingMode::kExact);
  const ReturnedParts parts = parts_of(layout, true, 2);
  EXPECT_TRUE(parts.shard(0, 0).rounds);
  EXPECT_FALSE(parts.shard(0, 1).rounds);
  EXPECT_FALSE(parts.shard(0, 2).rounds);
  EXPECT_FALSE(parts.shard(1, 0).rounds);
  EXPECT_FALSE(parts.shard(1, 1).rounds);  // 3 columns end within a word
  EXPECT_FALSE(parts_of(layout, false, 2).shard(0, 0).rounds);
}

}  // namespace
}  // namespace dlrm
