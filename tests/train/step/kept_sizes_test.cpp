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
  for (const auto& [strategy, ranks] : {std::pair{Strategy::kTable, 2}, {Strategy::kGrid, 4}}) {
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

}  // namespace
}  // namespace dlrm
