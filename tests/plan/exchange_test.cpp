// The bytes that each rank sends and receives, one by one.
#include <cmath>

#include "dlrm/plan/traffic.h"
#include "dlrm/wire/message_bytes.h"
#include "dlrm/wire/sample_code.h"

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
class ThreeRanks : public ::testing::Test {
 protected:
  ThreeRanks() { config.train.wire.forward = DType::kBFloat16; }
  RunConfig config = config_of({table("a", 100, 8, {1, 2}), table("b", 10, 4, {20})}, 5);
  Plan plan{3, {{0, {0, 100}, {0, 8}, 0}, {1, {0, 4}, {0, 4}, 1}, {1, {4, 10}, {0, 4}, 2}}, {}};
  const std::vector<int64_t> samples{1, 2, 2};
  // Floats of a sample's vectors from each owner.
  const std::vector<int64_t> floats{16, 4, 4};

  /// The message of rank `from` to owner `to`: headers, the code of cut rows, and ids.
  int64_t message(size_t from, size_t to) const {
    const int64_t n = samples[from];
    const std::vector<int64_t> ids{3, 8, 12};
    return id_message_bytes(to == 0 ? 2 : 1 + SampleCode(n, ids[to] * n).bytes(), 0, n, ids[to] * n,
                            4);
  }
};

TEST_F(ThreeRanks, EveryMessageCountsAtBothEnds) {
  const std::vector<RankLoad> loads = rank_loads(config, plan);
  for (size_t rank = 0; rank < 3; ++rank) {
    int64_t ids_out = 0, ids_in = 0, requested = 0;
    for (size_t q = 0; q < 3; ++q) {
      if (q == rank) continue;
      ids_out += 8 + message(rank, q);
      ids_in += 8 + message(q, rank);
      requested += samples[rank] * floats[q];
    }
    const int64_t owned = (5 - samples[rank]) * floats[rank];
    EXPECT_EQ(loads[rank].ids_sent_bytes, ids_out) << rank;
    EXPECT_EQ(loads[rank].pooled_sent_bytes, owned * 2) << rank;
    EXPECT_EQ(loads[rank].gradient_sent_bytes, requested * 4) << rank;
    EXPECT_EQ(loads[rank].received_bytes, ids_in + requested * 2 + owned * 4) << rank;
    EXPECT_EQ(loads[rank].replicated_bytes, 0) << rank;
  }
}

TEST_F(ThreeRanks, FixedRoutingSendsOneMessageToAll) {
  config.routing.mode = RoutingMode::kFixed;
  const std::vector<RankLoad> loads = rank_loads(config, plan);
  for (size_t rank = 0; rank < 3; ++rank) {
    const auto bytes = [&](size_t q) {
      return id_message_bytes(3, 0, samples[q], samples[q] * 23, 4);
    };
    int64_t in = 0;
    for (size_t q = 0; q < 3; ++q) in += q == rank ? 0 : 8 + bytes(q);
    EXPECT_EQ(loads[rank].ids_sent_bytes, 2 * (8 + bytes(rank))) << rank;
    const int64_t others = 24 - floats[rank];
    EXPECT_EQ(loads[rank].received_bytes,
              in + samples[rank] * others * 2 + (5 - samples[rank]) * floats[rank] * 4)
        << rank;
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
  EXPECT_NEAR(after[0].received_bytes - before[0].received_bytes, 4 * touched * 2, 1e-9);
  EXPECT_NEAR(after[1].gradient_sent_bytes - before[1].gradient_sent_bytes, 4 * touched * 2, 1e-9);
  EXPECT_NEAR(after[1].received_bytes - before[1].received_bytes, 4 * touched, 1e-9);
}

/// A large replicated table is sent as pairs, small ones are reduced in one allreduce.
TEST(ReplicaExchange, PairsAndReducedRowsAreCounted) {
  RunConfig config = config_of(
      {table("pairs", 1000000, 6, {2}), table("r1", 3, 5, {9}), table("r2", 4, 2, {9})}, 5);
  const Plan plan{2, {}, {0, 1, 2}};
  const std::vector<RankLoad> loads = rank_loads(config, plan);
  const int64_t reduced = 4 * (3 * (5 + 1) + 4 * (2 + 1));
  // 2 and 3 samples with 2 ids, all of different rows. The size of an empty message of ids travels
  // too.
  const int64_t two = pairs_message_bytes(1, 4, 4 * 6), three = pairs_message_bytes(1, 6, 6 * 6);
  EXPECT_EQ(loads[0].replicated_bytes, two + reduced);
  EXPECT_EQ(loads[0].received_bytes, 8 + three + reduced);
  EXPECT_EQ(loads[1].replicated_bytes, three + reduced);
  EXPECT_EQ(loads[1].received_bytes, 8 + two + reduced);
  config.device = DeviceKind::kCuda;  // sends all rows
  const int64_t all = 4 * (1000000 * 7) + reduced;
  EXPECT_EQ(rank_loads(config, plan)[0].replicated_bytes, all);
}

TEST(ReplicaExchange, PairsOfSkewedIdsHaveFewerRows) {
  RunConfig config = config_of({table("pairs", 1000000, 6, {200})}, 40);
  config.data.source = DataKind::kSynthetic;
  config.data.synthetic.alpha = 1.2;
  const Plan plan{2, {}, {0}};
  const int64_t rows = std::llround(expected_unique_rows(int64_t{1000000}, 20 * 200, 1.2));
  EXPECT_LT(rows, 2000);
  EXPECT_EQ(rank_loads(config, plan)[0].replicated_bytes, pairs_message_bytes(1, rows, rows * 6));
  config.data.source = DataKind::kHdf5;
  const int64_t uniform = std::llround(expected_unique_rows(1000000.0, 20 * 200));
  EXPECT_EQ(rank_loads(config, plan)[0].replicated_bytes,
            pairs_message_bytes(1, uniform, uniform * 6));
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

/// Ten samples of two ids, a tenth of the rows: 12 % of all messages have no id.
TEST(Traffic, GroupsWithoutIdsHaveNoCode) {
  const FeatureConfig feature = table("t", 100, 8, {2}).features[0];
  const double none = std::pow(0.9, 20);
  EXPECT_NEAR(expected_head_bytes(feature, {0, 10}, 100, 10),
              none * 1 + (1 - none) * (1.0 + static_cast<double>(SampleCode(10, 2).bytes())), 1e-9);
  EXPECT_EQ(expected_head_bytes(feature, {0, 100}, 100, 10), 1);
  EXPECT_EQ(expected_head_bytes(feature, {0, 10}, 100, 0), 0);
}

TEST(Traffic, PairsAreOfTheLargestLocalBatch) {
  const TableConfig t = table("t", 4, 3, {2});
  const double unique = 4 * (1 - std::pow(0.75, 3 * 2));
  EXPECT_NEAR(replicated_pair_bytes(t, 3, 4), 3 * unique * (8 + 12), 1e-9);
  EXPECT_DOUBLE_EQ(replicated_allreduce_bytes(t, 4), 2 * 0.75 * 4 * 4 * 4);
  // 3 ranks: pairs of 1 or 2 samples take 80 or 120 bytes, an allreduce takes 96.
  for (const auto& [batch, pairs] : {std::pair{3, true}, {4, false}}) {
    EXPECT_EQ(replicates_by_pairs(table("u", 2, 8), batch, 3), pairs) << batch;
  }
}

}  // namespace
}  // namespace dlrm::plan_test
