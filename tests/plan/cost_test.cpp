// The seconds that `auto` estimates.
#include "plan/cost.h"

#include <cmath>

#include "dlrm/plan/traffic.h"

#include "plan/memory.h"
#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

const MachineSpeed kSpeed;

/// A table of 1000 rows of 40 floats (2.5 lines), 4 and 1 ids a sample, batch 30.
RunConfig one_table() {
  RunConfig config = config_of({table("t", 1000, 40, {4, 1})}, 30);
  config.train.sparse_optimizer.type = OptimizerRule::kAdam;
  return config;
}

TEST(CostModel, OneRankExchangesNothing) {
  RunConfig config = one_table();
  const TableConfig& t = config.model.tables[0];
  const double seconds = CostModel(config, 1, {}).shard(t, 1000, 40);
  config.train.wire.forward = DType::kBFloat16;
  EXPECT_EQ(CostModel(config, 1, {}).shard(t, 1000, 40), seconds);
}

TEST(CostModel, FourRanksShareANodeIfTheirNumberIsUnknown) {
  const RunConfig config = one_table();
  const TableConfig& t = config.model.tables[0];
  for (const int world : {2, 3, 4, 16}) {
    PlanOptions known;
    known.ranks_per_node = 4;
    EXPECT_EQ(CostModel(config, world, {}).shard(t, 1000, 40),
              CostModel(config, world, known).shard(t, 1000, 40));
    known.ranks_per_node = 1;
    EXPECT_NE(CostModel(config, world, {}).shard(t, 1000, 40),
              CostModel(config, world, known).shard(t, 1000, 40));
  }
}

/// The sum over rows of the probability that a row is among the ids.
TEST(UniqueRows, OfSkewedIdsAreTheSumOverRows) {
  for (const double alpha : {0.5, 1.0, 1.05, 1.5}) {
    for (const int64_t rows : {1, 2, 50, 20000}) {
      const auto below = [&](double row) {
        const auto power = [&](double x) {
          return alpha == 1 ? std::log(x) : std::pow(x, 1 - alpha) - 1;
        };
        return power(row + 1) / power(static_cast<double>(rows) + 1);
      };
      for (const double lookups : {1.0, 100.0, 1e5}) {
        double sum = 0;
        for (int64_t row = 0; row < rows; ++row) {
          const auto r = static_cast<double>(row);
          sum += 1 - std::pow(1 - (below(r + 1) - below(r)), lookups);
        }
        EXPECT_NEAR(expected_unique_rows(rows, lookups, alpha) / sum, 1, 1e-2)
            << alpha << ", " << rows << ", " << lookups;
      }
    }
  }
}

TEST(CostModel, SkewedIdsUpdateFewerRows) {
  RunConfig config = one_table();
  const TableConfig& t = config.model.tables[0];
  config.data.source = DataKind::kSynthetic;
  config.data.synthetic.alpha = 1.2;
  const double skewed = CostModel(config, 1, {}).shard(t, 500, 40);
  config.data.source = DataKind::kHdf5;
  const double uniform = CostModel(config, 1, {}).shard(t, 500, 40);
  const double fewer =
      0.5 * (expected_unique_rows(1000, 150) - expected_unique_rows(1000, 150, 1.2));
  EXPECT_GT(fewer, 0);
  EXPECT_NEAR(uniform - skewed, 2 * fewer * (192 + 384) / kSpeed.memory, 1e-15);
}

/// Winners are found in the rows once more, and get a gradient each.
TEST(CostModel, MaximaReadRowsOnceMoreAndWriteAGradientOfEachId) {
  RunConfig config = one_table();
  TableConfig& t = config.model.tables[0];
  for (const int world : {1, 3}) {
    t.features[0].pooling = Pooling::kSum;
    const CostModel sums(config, world, {});
    const double sum = sums.shard(t, 1000, 20), copied = sums.replica(t);
    t.features[0].pooling = Pooling::kMax;  // of 4 ids
    const CostModel maxima(config, world, {});
    const double more = 30 * 4 / kSpeed.memory;
    EXPECT_NEAR(maxima.shard(t, 1000, 20) - sum, more * (128 + 80), 1e-15);
    EXPECT_NEAR(maxima.replica(t) - copied, more / world * (192 + 160), 1e-15);
  }
}

/// A checkpoint needs more.
TEST(CostModel, TheMemoryOfACachedShardIsNearlyThatOfItsRank) {
  for (const char* backing : {"ssd", "host"}) {
    for (const char* middle : {"", "20%"}) {
      RunConfig config = config_of({table("t", 1000000, 16, {4})}, 64);
      config.memory.tables["t"] = MemoryTier::kCached;
      config.memory.cached.backing = backing;
      config.memory.cached.middle = middle;
      const TableConfig& t = config.model.tables[0];
      const double needed = rank_memory(config, make_plan(config, 1))[0].cache +
                            TableMemory(config, 1).routed(t, t.rows, 64, 1);
      const double counted = CostModel(config, 1, {}).bytes(t, t.rows, 16);
      EXPECT_LT(counted, needed) << backing << middle;
      EXPECT_GT(counted, 0.6 * needed) << backing << middle;
    }
  }
}

}  // namespace
}  // namespace dlrm::plan_test
