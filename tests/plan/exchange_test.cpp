// The bytes that each rank sends and receives, one by one.
#include "dlrm/plan/traffic.h"
#include "dlrm/wire/message_bytes.h"

#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

TEST(WireIdBytes, FourBytesSufficeForTwoToThe31Rows) {
  EXPECT_EQ(wire_id_bytes(1), 4);
  EXPECT_EQ(wire_id_bytes(int64_t{1} << 31), 4);
  EXPECT_EQ(wire_id_bytes((int64_t{1} << 31) + 1), 8);
}

TEST(MessageBytes, HeadsLengthsAndIdsArePaddedApart) {
  EXPECT_EQ(id_message_bytes(9, 1, 3, 5, 4), 16 + 16 + 24);
  EXPECT_EQ(id_message_bytes(8, 0, 3, 5, 8), 8 + 40);
  EXPECT_EQ(id_message_bytes(1, 2, 3, 0, 4), 8 + 24);
  EXPECT_EQ(id_message_bytes(2, 1, 0, 0, 4), 0);
  EXPECT_EQ(pairs_message_bytes(3, 2, 5), 3 * 8 + 40);
  EXPECT_EQ(pairs_message_bytes(1, 0, 0), 8);
}

TEST(AllreduceSentBytes, SmallVectorsAreSentWhole) {
  EXPECT_EQ(allreduce_sent_bytes(4096, 0, 2), 4 * 4096);
  EXPECT_EQ(allreduce_sent_bytes(2048, 1, 3), 4 * 2048 * 2);
  // Two exchanges: the other ranks' parts, then the own part to each.
  EXPECT_EQ(allreduce_sent_bytes(4097, 0, 2), 4 * 2049 + 4 * 2048);
  EXPECT_EQ(allreduce_sent_bytes(4097, 1, 2), 4 * 2048 + 4 * 2049);
  EXPECT_EQ(allreduce_sent_bytes(4099, 2, 3), 4 * (4099 - 1367) + 4 * 1367 * 2);
}

/// Batch 5 over 3 ranks: 1, 2 and 2 samples. `a` is whole on rank 0, the rows of `b` are on ranks 1
/// and 2. Values of forward and backward have 2 and 4 bytes.
TEST(RankLoads, WhatIsSentIsReceived) {
  RunConfig config = config_of({table("a", 100, 8, {1, 2}), table("b", 10, 4, {20})}, 5);
  config.train.wire.forward = DType::kBFloat16;
  const Plan plan{
      3, {{0, {0, 100}, {0, 8}, 0}, {1, {0, 4}, {0, 4}, 1}, {1, {4, 10}, {0, 4}, 2}}, {}};
  const std::vector<double> samples{1, 2, 2}, floats{16, 4, 4};  // of a sample's vectors, by owner
  for (const RoutingMode mode : {RoutingMode::kExact, RoutingMode::kFixed}) {
    config.routing.mode = mode;
    const TableConfig& b = config.model.tables[1];
    std::vector<double> ids{3 * 4, id_bytes_per_sample(b, {0, 4}), id_bytes_per_sample(b, {4, 10})};
    if (mode == RoutingMode::kFixed) ids.assign(3, 23 * 4);  // those of all features, to all ranks
    const std::vector<RankLoad> loads = rank_loads(config, plan);
    for (size_t rank = 0; rank < 3; ++rank) {
      const double mine = samples[rank], others = 5 - mine;
      const double of_others = ids[0] + ids[1] + ids[2] - ids[rank];
      EXPECT_DOUBLE_EQ(loads[rank].ids_sent_bytes, mine * of_others) << rank;
      EXPECT_DOUBLE_EQ(loads[rank].ids_received_bytes, others * ids[rank]) << rank;
      EXPECT_DOUBLE_EQ(loads[rank].pooled_sent_bytes, others * floats[rank] * 2) << rank;
      EXPECT_DOUBLE_EQ(loads[rank].pooled_received_bytes, mine * (24 - floats[rank]) * 2) << rank;
      EXPECT_DOUBLE_EQ(loads[rank].gradient_sent_bytes, mine * (24 - floats[rank]) * 4) << rank;
      EXPECT_DOUBLE_EQ(loads[rank].gradient_received_bytes, others * floats[rank] * 4) << rank;
      EXPECT_EQ(loads[rank].replicated_bytes, 0) << rank;
    }
  }
}

/// Rows [0, 6) of a table of 10 are cut into columns on ranks 0 and 1, rows [6, 10) are whole.
TEST(SquareSums, ThePiecesOfARowAreSentToItsOtherOwners) {
  RunConfig config = config_of({table("t", 10, 8, {3})}, 4);
  const Plan plan{2,
                  {{0, {0, 6}, {0, 3}, 0},
                   {0, {6, 10}, {0, 8}, 0},
                   {0, {0, 6}, {3, 5}, 1},
                   {0, {0, 6}, {5, 8}, 1}},
                  {}};
  const std::vector<RankLoad> before = rank_loads(config, plan);
  config.train.sparse_optimizer.type = OptimizerRule::kRowwiseAdagrad;
  const std::vector<RankLoad> after = rank_loads(config, plan);
  const double touched = expected_unique_rows(10, 12) * 0.6;
  EXPECT_NEAR(after[0].gradient_sent_bytes - before[0].gradient_sent_bytes, 4 * touched, 1e-9);
  EXPECT_NEAR(after[0].gradient_received_bytes - before[0].gradient_received_bytes, 4 * touched * 2,
              1e-9);
  EXPECT_NEAR(after[1].gradient_sent_bytes - before[1].gradient_sent_bytes, 4 * touched * 2, 1e-9);
  EXPECT_NEAR(after[1].gradient_received_bytes - before[1].gradient_received_bytes, 4 * touched,
              1e-9);
}

/// A large replicated table is sent as pairs, small ones are reduced in one allreduce.
TEST(ReplicaExchange, PairsAndReducedRowsAreCounted) {
  RunConfig config = config_of(
      {table("pairs", 1000000, 6, {2}), table("r1", 3, 5, {9}), table("r2", 4, 2, {9})}, 5);
  const Plan plan{2, {}, {0, 1, 2}};
  const std::vector<RankLoad> loads = rank_loads(config, plan);
  const double reduced = 4 * (3 * (5 + 1) + 4 * (2 + 1));
  // 2 and 3 samples with 2 ids, all of different rows.
  const double two = 4 * (8 + 4 * 6), three = 6 * (8 + 4 * 6);
  EXPECT_NEAR(loads[0].replicated_bytes, two + reduced, 0.01);
  EXPECT_NEAR(loads[0].replicated_received_bytes, three + reduced, 0.01);
  EXPECT_NEAR(loads[1].replicated_bytes, three + reduced, 0.01);
  EXPECT_NEAR(loads[1].replicated_received_bytes, two + reduced, 0.01);
  config.device = DeviceKind::kCuda;  // sends all rows
  EXPECT_EQ(rank_loads(config, plan)[0].replicated_bytes, 4 * (1000000 * 7) + reduced);
}

TEST(ReplicaExchange, PairsOfSkewedIdsHaveFewerRows) {
  RunConfig config = config_of({table("pairs", 1000000, 6, {200})}, 40);
  config.data.source = DataKind::kSynthetic;
  config.data.synthetic.alpha = 1.2;
  const double rows = expected_unique_rows(int64_t{1000000}, 20 * 200, 1.2);
  EXPECT_LT(rows, 2000);
  EXPECT_DOUBLE_EQ(rank_loads(config, {2, {}, {0}})[0].replicated_bytes, rows * (8 + 4 * 6));
}

TEST(Traffic, TheShareOfRowsDecidesAboutIdsAndVectors) {
  const TableConfig t = table("t", 12, 8, {1, 3});
  EXPECT_EQ(hotness_of(t), 4);
  EXPECT_EQ(id_bytes_per_sample(t, {0, 12}), 4 * 4);
  // Codes of 0.5 and 1.5 ids a sample: 2 low bits less the gain of gaps, and one bit an id.
  EXPECT_NEAR(id_bytes_per_sample(t, {0, 6}), 4 * 4 * 0.5 + (0.5 * 2 + 0.5 + 1.5 + 1) / 8, 1e-4);
  EXPECT_TRUE(returns_only_non_empty_bags(RoutingMode::kExact, 3, {0, 5}, 12));
  EXPECT_FALSE(returns_only_non_empty_bags(RoutingMode::kExact, 3, {0, 6}, 12));  // 7/8 of bags
  EXPECT_FALSE(returns_only_non_empty_bags(RoutingMode::kExact, 1, {0, 12}, 12));
  EXPECT_FALSE(returns_only_non_empty_bags(RoutingMode::kFixed, 1, {0, 1}, 12));
  EXPECT_DOUBLE_EQ(expected_vectors(RoutingMode::kExact, t, {0, 6}), 0.5 + 1);
  EXPECT_DOUBLE_EQ(expected_vectors(RoutingMode::kExact, t, {0, 3}), 0.25 + 1 - 0.421875);
  EXPECT_EQ(expected_vectors(RoutingMode::kFixed, t, {0, 3}), 2);
}

TEST(Traffic, PairsAreOfTheLargestLocalBatch) {
  EXPECT_DOUBLE_EQ(replicated_allreduce_bytes(table("t", 4, 3, {2}), 4), 2 * 0.75 * 4 * 4 * 4);
  // 3 ranks: pairs of 1 or 2 samples take 80 or 120 bytes, an allreduce takes 96.
  for (const auto& [batch, pairs] : {std::pair{3, true}, {4, false}}) {
    EXPECT_EQ(replicates_by_pairs(table("u", 2, 8), batch, 3), pairs) << batch;
  }
}

}  // namespace
}  // namespace dlrm::plan_test
