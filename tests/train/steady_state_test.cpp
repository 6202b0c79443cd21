// What is allocated during training. Steps give back what they take, so that a run of any length
// needs no more memory, and they reuse lists and calls instead of making new ones.
#include <limits>

#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/train/trainer.h"

#include "counted_allocations.h"
#include "small_run.h"
#include "test_rank.h"

namespace dlrm {
namespace {

class SteadyState : public testing::Test {
 protected:
  void SetUp() override {
    if (!kCounted) GTEST_SKIP() << "a sanitizer allocates";
  }
};

/// What all ranks together hold and have allocated after a step.
struct Memory {
  int64_t held = 0, allocated = 0;
};

/// Batches are the same in every third step. They are made before what follows is counted.
std::vector<Memory> memory_of(const RunConfig& config, int ranks, int steps) {
  std::vector<Memory> after(static_cast<size_t>(steps));
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
      if (comm.rank() == 0) after[static_cast<size_t>(step)] = {held, allocations};
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
  const std::vector<Memory> after = memory_of(config, ranks, kWarm + kBlocks * kBlock);
  int64_t least = std::numeric_limits<int64_t>::max();
  for (size_t at = kWarm - 1; at + kBlock < after.size(); at += kBlock) {
    least = std::min(least, after[at + kBlock].held - after[at].held);
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

/// The fewest allocations of three steps in a row, which have three batches. Of other threads'
/// calls more may be under way on a busy machine.
int64_t fewest_allocations(const RunConfig& config) {
  const std::vector<Memory> after = memory_of(config, 1, 42);
  int64_t fewest = std::numeric_limits<int64_t>::max();
  for (size_t step = 20; step < after.size(); ++step) {
    fewest = std::min(fewest, after[step].allocated - after[step - 3].allocated);
  }
  return fewest;
}

/// Whoever adds an allocation on purpose raises the number.
TEST_F(SteadyState, AStepMakesFewAllocations) {
  for (const int depth : {0, 1}) {
    RunConfig config = small_model(DeviceKind::kCpu, Strategy::kAuto);
    config.routing.depth = depth;
    EXPECT_LE(fewest_allocations(config), 3 * 64);
  }
  EXPECT_LE(fewest_allocations(cached_model()), 3 * 72);
}

}  // namespace
}  // namespace dlrm
