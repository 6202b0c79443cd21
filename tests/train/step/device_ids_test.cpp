#include <algorithm>
#include <array>
#include <cstdlib>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/device/device.h"
#include "dlrm/plan/plan.h"
#include "dlrm/train/run.h"
#include "dlrm/train/trainer.h"

#include "train/run/packing_source.h"
#include "train/small_run.h"
#include "train/test_rank.h"

namespace dlrm {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

/// One of two ranks' part of the same batch again and again.
class OddPart final : public BatchSource {
 public:
  OddPart(const RunConfig& config, int rank) : config_(config), rank_(rank) {}
  const BatchPlan& plan() const override { return plan_; }
  void load(int64_t, Batch& batch) const override { batch = odd_batch(config_, 0, rank_, 2); }
  std::string describe() const override { return "odd"; }

 private:
  const RunConfig& config_;
  int rank_;
  BatchPlan plan_;
};

/// Ids that are copied to a GPU, or to the emulated one.
class IdsOnADevice : public ::testing::TestWithParam<DeviceKind> {
 protected:
  static RunConfig odd_model_of(Strategy strategy, RoutingMode mode) {
    RunConfig c = odd_model();
    c.device = GetParam();
    shard_by(c, strategy);
    c.routing.mode = mode;
    return c;
  }
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(IdsOnADevice);
INSTANTIATE_TEST_SUITE_P(All, IdsOnADevice,
                         ::testing::ValuesIn(cuda_device_count() > 0
                                                 ? std::vector{DeviceKind::kCuda}
                                                 : std::vector<DeviceKind>{}),
                         [](const auto&) { return "cuda"; });

TEST_P(IdsOnADevice, FixedRoutingGivesTheBitsOfExact) {
  for (const Strategy strategy : {Strategy::kTable, Strategy::kRow, Strategy::kGrid}) {
    for (const int depth : {0, 2}) {
      RunConfig exact = odd_model_of(strategy, RoutingMode::kExact);
      RunConfig fixed = odd_model_of(strategy, RoutingMode::kFixed);
      exact.routing.depth = fixed.routing.depth = depth;
      expect_alike(train_on_threads(fixed, 3, 4), train_on_threads(exact, 3, 4), 0, 0);
    }
  }
}

/// Ids that change after they were packed show in the loss which of them were routed.
TEST_P(IdsOnADevice, AreThoseThatWerePackedWithTheirBatch) {
  if (!cuda_is_emulated()) GTEST_SKIP() << "NCCL does not let ranks share a GPU";
  ::setenv("NCCL_HOSTID", "of this rank", 1);
  RunConfig c = odd_model_of(Strategy::kRow, RoutingMode::kFixed);
  c.comm = CommKind::kNccl;
  const auto loss_of = [&](bool packs, bool changes) {
    std::vector<double> losses(2);
    run_on_threads(2, [&](Communicator& comm) {
      TestRank rank(comm, c);
      Trainer trainer(rank.context, *rank.ops, c, make_plan(c, 2), true);
      const OddPart source(c, comm.rank());
      const PackingSource packing(source, trainer.embeddings());
      Batch batch;
      for (int step = 0; step < 2; ++step) {  // the first one reserves memory for what is packed
        packs ? packing.load(step, batch) : source.load(step, batch);
        if (changes && step == 1) std::fill(batch.ids.begin(), batch.ids.end(), 0);
        trainer.route(batch);
        losses[static_cast<size_t>(comm.rank())] = trainer.step(step, false).loss;
      }
    });
    return losses[0];
  };
  const double loss = loss_of(false, false);
  EXPECT_EQ(loss_of(true, false), loss);
  EXPECT_EQ(loss_of(true, true), loss);
  EXPECT_NE(loss_of(false, true), loss);
}

/// Batches 0, 1, 0, 0, 2, 1, ... of odd_batch(). `numbered`: equal ones say so.
class RecurringParts final : public BatchSource {
 public:
  RecurringParts(const RunConfig& config, Communicator& comm, bool numbered)
      : config_(config), comm_(comm), numbered_(numbered) {}
  const BatchPlan& plan() const override { return plan_; }
  void load(int64_t t, Batch& batch) const override {
    const int64_t recurring = std::array{0, 1, 0, 0, 2, 1}[static_cast<size_t>(t % 6)];
    batch = odd_batch(config_, recurring, comm_.rank(), comm_.size());
    if (numbered_) batch.content = recurring + 1;
  }
  std::string describe() const override { return "recurring"; }

 private:
  const RunConfig& config_;
  Communicator& comm_;
  const bool numbered_;
  BatchPlan plan_;
};

std::vector<double> losses_of_recurring(const RunConfig& c, int ranks, bool numbered,
                                        bool recorded) {
  std::vector<double> losses;
  run_on_threads(ranks, [&](Communicator& comm) {
    TestRank rank(comm, c);
    Trainer trainer(rank.context, *rank.ops, c, make_plan(c, ranks), true);
    trainer.use_graphs(recorded);
    const RecurringParts source(c, comm, numbered);
    const PackingSource packing(source, trainer.embeddings());
    Prefetcher batches(packing, 0, 12, 0, 1);
    for (int step = 0; step < 12; ++step) {
      const double loss = trainer.step(step, false, [&] { return batches.next(); }).loss;
      if (comm.rank() == 0) losses.push_back(loss);
    }
  });
  return losses;
}

class RecurringBatches : public ::testing::TestWithParam<DeviceKind> {};
INSTANTIATE_TEST_SUITE_P(All, RecurringBatches,
                         ::testing::ValuesIn(cuda_device_count() > 0
                                                 ? std::vector{DeviceKind::kCpu, DeviceKind::kCuda}
                                                 : std::vector{DeviceKind::kCpu}),
                         [](const auto& device) {
                           return device.param == DeviceKind::kCpu ? "cpu" : "cuda";
                         });

TEST_P(RecurringBatches, TrainAlikeWhetherOrNotTheyAreKnownToRecur) {
  const bool nccl = GetParam() == DeviceKind::kCuda && cuda_is_emulated();
  if (nccl) ::setenv("NCCL_HOSTID", "of this rank", 1);
  for (const int ranks : {1, 2}) {
    for (const RoutingMode mode : {RoutingMode::kExact, RoutingMode::kFixed}) {
      for (const int depth : {0, 2}) {
        RunConfig c = odd_model();
        c.device = GetParam();
        c.routing.mode = mode;
        c.routing.depth = depth;
        if (GetParam() == DeviceKind::kCuda) c.comm = nccl ? CommKind::kNccl : CommKind::kStaged;
        const bool recorded = depth == 2;
        EXPECT_EQ(losses_of_recurring(c, ranks, true, recorded),
                  losses_of_recurring(c, ranks, false, recorded))
            << ranks << " ranks, routing " << static_cast<int>(mode) << ", depth " << depth;
      }
    }
  }
}

TEST_P(IdsOnADevice, MoreRanksThanSamplesTrainAlikeInBothModes) {
  RunConfig exact = odd_model_of(Strategy::kRow, RoutingMode::kExact);
  RunConfig fixed = odd_model_of(Strategy::kRow, RoutingMode::kFixed);
  exact.train.global_batch_size = fixed.train.global_batch_size = 5;
  expect_alike(train_on_threads(fixed, 6, 3), train_on_threads(exact, 6, 3), 0, 0);
}

TEST_P(IdsOnADevice, ABadIdInARowShardIsNamedByItsRowInTheTable) {
  const RunConfig c = odd_model_of(Strategy::kRow, RoutingMode::kExact);
  int64_t first_row = -1;
  for (const Shard& shard : make_plan(c, 2).shards) {
    if (shard.rank == 1 && first_row < 0) first_row = shard.rows.begin;
  }
  ASSERT_GT(first_row, 0);
  const std::vector<std::string> errors = errors_of_a_spoilt_id(c, 2, false, 1);
  EXPECT_THAT(errors[0], HasSubstr(fmt::format(": id {} in the", (1 << 30) + first_row)));
  EXPECT_THAT(errors[0], HasSubstr("rank 1"));
  EXPECT_THAT(errors, Each(errors[0]));
}

}  // namespace
}  // namespace dlrm
