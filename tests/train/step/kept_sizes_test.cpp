// Steps whose ids change the sizes of lists and messages, launched as graphs.
#include <algorithm>
#include <cstdlib>

#include <gtest/gtest.h>

#include "dlrm/data/batch_source.h"
#include "dlrm/device/device.h"

#include "train/small_run.h"

namespace dlrm {
namespace {

class StepsOfAnyIds : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
    if (!cuda_is_emulated()) GTEST_SKIP() << "NCCL does not let ranks share a GPU";
    ::setenv("NCCL_HOSTID", "of this rank", 1);  // ranks that share a GPU need one each
  }
};

/// Batches of one size with bags of any length.
Batch full_batch(const RunConfig& config, int64_t t, int rank, int world) {
  return odd_batch(config, 3 * t, rank, world);
}

/// Batches of synthetic data: every bag has as many ids as its feature's hotness.
Batch synthetic_batch(const RunConfig& config, int64_t t, int rank, int world) {
  Batch batch;
  make_batch_source(config, Split::kTrain, rank, world)->load(t, batch);
  return batch;
}

/// odd_model() on a GPU.
RunConfig odd_model_on_a_gpu(Strategy strategy, OptimizerRule sparse) {
  RunConfig c = odd_model();
  c.device = DeviceKind::kCuda;
  c.comm = CommKind::kNccl;
  shard_by(c, strategy);
  c.train.sparse_optimizer.type = sparse;
  c.train.sparse_optimizer.initial_accumulator = 0.1;
  return c;
}

/// Expects the bits of an eager run, and that every step after the first `warm` is a graph. Returns
/// the recorded run.
Trained expect_replayed(const RunConfig& c, int ranks, int steps, size_t warm,
                        const MakeBatch& make_batch = full_batch) {
  const Trained eager = train_on_batches(c, ranks, steps, make_batch);
  const Trained recorded = train_on_batches(c, ranks, steps, make_batch, false, true);
  expect_alike(recorded, eager, 0, 0);
  for (size_t step = warm; step < recorded.launches.size(); ++step) {
    EXPECT_EQ(recorded.launches[step], recorded.launches[step - 1] + 1) << "step " << step + 1;
  }
  return recorded;
}

TEST_F(StepsOfAnyIds, AreGraphsOnceTheirListsHaveRoom) {
  for (const auto& [strategy, ranks] :
       {std::pair{Strategy::kTable, 2}, {Strategy::kRow, 3}, {Strategy::kGrid, 4}}) {
    RunConfig c = odd_model_on_a_gpu(strategy, OptimizerRule::kRowwiseAdagrad);
    c.routing.depth = ranks == 4 ? 1 : 0;
    expect_replayed(c, ranks, 30, 20);
  }
}

TEST_F(StepsOfAnyIds, OfPartialBatchesAndAfterAnEvaluationHaveTheSameBits) {
  RunConfig c = odd_model_on_a_gpu(Strategy::kRow, OptimizerRule::kAdagrad);
  const Trained recorded = train_recorded(c, 3, 24, true, {.evaluate = 13});
  EXPECT_GT(recorded.launched, 0);
  expect_alike(recorded, train_recorded(c, 3, 24, false), 0, 0);
}

TEST_F(StepsOfAnyIds, AreGraphsWithRoundedWiresAndBf16) {
  RunConfig c = odd_model_on_a_gpu(Strategy::kRow, OptimizerRule::kAdam);
  c.train.wire = {DType::kFloat16, DType::kBFloat16, DType::kBFloat16};
  c.train.precision = Precision::kBf16;
  c.routing.depth = 0;
  expect_replayed(c, 2, 20, 14);
}

TEST_F(StepsOfAnyIds, AreGraphsAgainAfterABatchThatDidNotFit) {
  // From step 13 on, all ids that were in the first rows are in the last ones.
  const auto moving = [](const RunConfig& config, int64_t t, int rank, int world) {
    Batch batch = full_batch(config, t, rank, world);
    size_t next = 0, bag = 0;
    for (const TableConfig& table : config.model.tables) {
      for (size_t f = 0; f < table.features.size(); ++f) {
        bag += static_cast<size_t>(batch.local.size());
        for (; next < static_cast<size_t>(batch.offsets[bag]); ++next) {
          int64_t& id = batch.ids[next];
          id = id % std::max<int64_t>(1, table.rows / 3);
          if (t >= 12) id = table.rows - 1 - id;
        }
      }
    }
    return batch;
  };
  RunConfig c = odd_model_on_a_gpu(Strategy::kRow, OptimizerRule::kAdagrad);
  c.routing.depth = 0;
  const Trained recorded = train_on_batches(c, 3, 24, moving, false, true);
  expect_alike(recorded, train_on_batches(c, 3, 24, moving), 0, 0);
  EXPECT_GT(recorded.launches[11], recorded.launches[10]);
  EXPECT_EQ(recorded.launches[12], recorded.launches[11]);
  EXPECT_EQ(recorded.launches[23], recorded.launches[20] + 3);
}

/// DCNv2 in small: hot tables whose rows the auto plan cuts over 8 ranks.
RunConfig small_dcnv2() {
  RunConfig c = parse_config(R"(
model:
  dense_features: 5
  embedding_dim: 8
  bottom_mlp: [9, 8]
  top_mlp: [7, 1]
  interaction: {type: cross, layers: 2, rank: 4}
  tables:
    - {name: C1, rows: 4000, hotness: 3}
    - {name: C3, rows: 17}
    - {name: C6, rows: 3}
    - {name: C10, rows: 4000, hotness: 7}
    - {name: C21, rows: 4000, hotness: 100}
    - {name: C22, rows: 4000, hotness: 27}
data: {source: synthetic}
device: cuda
comm: nccl
train:
  global_batch_size: 35
  pin_algorithms: true
  dense_optimizer: {type: adagrad, lr: 0.02}
  sparse_optimizer: {type: adagrad, lr: 0.05}
)",
                             "small_dcnv2");
  return c;
}

TEST_F(StepsOfAnyIds, OfAnAutoPlanThatCutsRowsOnEightRanksAreGraphs) {
  constexpr int kRanks = 8, kSteps = 24;
  RunConfig c = small_dcnv2();
  c.routing.depth = 0;
  const Plan plan = make_plan(c, kRanks);
  EXPECT_TRUE(std::any_of(plan.shards.begin(), plan.shards.end(), [&](const Shard& shard) {
    return shard.rows.size() < c.model.tables[static_cast<size_t>(shard.table)].rows;
  }));
  const Trained recorded = expect_replayed(c, kRanks, kSteps, 16, synthetic_batch);
  c.comm = CommKind::kAuto;
  expect_alike(recorded, train_on_batches(c, 1, kSteps, synthetic_batch), 1e-4, 1e-3);
}

TEST_F(StepsOfAnyIds, OfCachedTablesAreGraphs) {
  RunConfig c = odd_model_on_a_gpu(Strategy::kGrid, OptimizerRule::kRowwiseAdagrad);
  c.model.tables[2].rows = 12000;
  c.model.tables[3].rows = 15000;
  const Trained resident = train_on_threads(c, 4, 20);
  c.memory.tier = MemoryTier::kCached;
  c.memory.cached.backing = "host";
  c.memory.cached.fast = "3%";
  c.memory.cached.window = 2;
  const Trained recorded = train_on_threads(c, 4, 20, false, true);
  expect_alike(recorded, resident, 0, 0);
  EXPECT_GT(recorded.launched, 0);
}

TEST_F(StepsOfAnyIds, OfOneRankAreGraphs) {
  RunConfig c = odd_model_on_a_gpu(Strategy::kAuto, OptimizerRule::kAdam);
  c.comm = CommKind::kAuto;
  expect_replayed(c, 1, 30, 24);
}

}  // namespace
}  // namespace dlrm
