// Steps give back what they allocate, so that a run of any length needs no more memory.
#include <limits>

#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/train/trainer.h"

#include "counted_allocations.h"
#include "train/small_run.h"
#include "train/test_rank.h"

namespace dlrm {
namespace {

class SteadyState : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kCounted) GTEST_SKIP() << "a sanitizer allocates";
  }
};

/// The allocations that all ranks together hold after each step. Batches are the same in every
/// third step. They are made before what follows is counted.
std::vector<int64_t> held_after(const RunConfig& config, int ranks, int steps) {
  std::vector<int64_t> after(static_cast<size_t>(steps));
  run_on_threads(ranks, [&](Communicator& comm) {
    TestRank rank(comm, config);
    Trainer trainer(rank.context, *rank.ops, config, make_plan(config, ranks), true);
    trainer.use_graphs(true);
    std::vector<Batch> batches;
    for (int t = 0; t < 3; ++t) batches.push_back(odd_batch(config, t, comm.rank(), ranks));
    int routed = 0;
    for (int step = 0; step < steps; ++step) {
      for (; routed <= step + config.routing.depth && routed < steps; ++routed) {
        Batch& next = batches[static_cast<size_t>(routed % 3)];
        next.t = routed;
        trainer.route(next);
      }
      trainer.step(step, false);
      comm.barrier();
      if (comm.rank() == 0) after[static_cast<size_t>(step)] = held;
      comm.barrier();
    }
  });
  return after;
}

RunConfig small_model(DeviceKind device, Strategy strategy) {
  RunConfig config = odd_model();
  config.device = device;
  if (device == DeviceKind::kCuda) config.comm = CommKind::kNccl;
  ::setenv("NCCL_HOSTID", "of this rank", 1);  // ranks that share a GPU need one each
  shard_by(config, strategy);
  config.train.sparse_optimizer.type = OptimizerRule::kAdagrad;
  return config;
}

/// Ranks may be apart by some calls, whose number depends on the load. What each step keeps adds
/// up.
void expect_nothing_kept(const RunConfig& config, int ranks) {
  constexpr int kWarm = 15, kBlock = 12, kBlocks = 3;
  const std::vector<int64_t> after = held_after(config, ranks, kWarm + kBlocks * kBlock);
  int64_t least = std::numeric_limits<int64_t>::max();
  for (size_t at = kWarm - 1; at + kBlock < after.size(); at += kBlock) {
    least = std::min(least, after[at + kBlock] - after[at]);
  }
  EXPECT_LT(least, kBlock / 3) << "in " << kBlock << " steps";
}

TEST_F(SteadyState, AStepKeepsNothing) {
  for (const auto& [strategy, ranks] : {std::pair{Strategy::kAuto, 1},
                                        {Strategy::kTable, 2},
                                        {Strategy::kRow, 3},
                                        {Strategy::kColumn, 2},
                                        {Strategy::kDataParallel, 2}}) {
    SCOPED_TRACE(static_cast<int>(strategy));
    expect_nothing_kept(small_model(DeviceKind::kCpu, strategy), ranks);
  }
}

TEST_F(SteadyState, AStepOfAGpuKeepsNothing) {
  if (!cuda_is_emulated()) GTEST_SKIP() << "NCCL does not let ranks share a GPU";
  expect_nothing_kept(small_model(DeviceKind::kCuda, Strategy::kAuto), 1);
  expect_nothing_kept(small_model(DeviceKind::kCuda, Strategy::kRow), 2);
}

RunConfig cached_model() {
  RunConfig config = small_model(DeviceKind::kCpu, Strategy::kRow);
  config.model.tables[2].rows = 30000;
  config.model.tables[3].rows = 40000;
  config.memory.tier = MemoryTier::kCached;
  config.memory.cached.backing = "host";
  config.memory.cached.fast = "0.7%";  // less than the rows of three batches
  config.memory.cached.window = 2;
  return config;
}

TEST_F(SteadyState, AStepOverACacheKeepsNothing) {
  expect_nothing_kept(cached_model(), 1);
  expect_nothing_kept(cached_model(), 2);
}

}  // namespace
}  // namespace dlrm
