// What a step queues on a GPU, counted by the emulator.
#if defined(DLRM_SIMT)
#include <cstdlib>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "simt/simt.h"
#include "small_run.h"

namespace dlrm {
namespace {

/// MLPerf's DCNv2 in small: three cross layers and bf16. `small` tables are data-parallel, two are
/// cut by columns. All bags have one id, so that sizes do not depend on the batch.
RunConfig small_dcn(int small) {
  RunConfig c = odd_model();
  c.model.interaction = CrossConfig{3, 4};
  c.model.tables.clear();
  c.sharding.tables.clear();
  for (int t = 0; t < small + 2; ++t) {
    const std::string name = fmt::format("t{}", t);
    TableConfig table;
    table.name = table.group = name;
    table.rows = 5 + 7 * t;
    table.dim = 6;
    table.features.push_back({name});
    c.model.tables.push_back(table);
    c.sharding.tables[name] = t < small ? Strategy::kDataParallel : Strategy::kColumn;
  }
  c.train.precision = Precision::kBf16;
  c.train.sparse_optimizer.type = OptimizerRule::kAdagrad;
  c.device = DeviceKind::kCuda;
  c.comm = CommKind::kNccl;
  ::setenv("NCCL_HOSTID", "of this rank", 1);  // ranks that share a GPU need one each
  return c;
}

/// The sums over both ranks.
simt::Counters counts_of_a_step(const RunConfig& config) {
  constexpr int kRanks = 2, kSteps = 6;
  const auto counted = [&](int steps) {
    const simt::Counters before = simt::counters();
    train_on_threads(config, kRanks, steps);
    simt::Counters after = simt::counters();
    after.kernels -= before.kernels;
    after.library_calls -= before.library_calls;
    after.copies -= before.copies;
    after.fills -= before.fills;
    after.host_waits -= before.host_waits;
    return after;
  };
  simt::Counters step = counted(kSteps + 1);
  const simt::Counters shorter = counted(kSteps);
  step.kernels -= shorter.kernels;
  step.library_calls -= shorter.library_calls;
  step.copies -= shorter.copies;
  step.fills -= shorter.fills;
  step.host_waits -= shorter.host_waits;
  return step;
}

/// The fixed work of a step, and one set of launches for any number of tables.
TEST(StepLaunches, DoNotDependOnTheNumberOfDataParallelTables) {
  const simt::Counters few = counts_of_a_step(small_dcn(2)), many = counts_of_a_step(small_dcn(11));
  EXPECT_EQ(few.kernels, many.kernels);
  EXPECT_EQ(few.library_calls, many.library_calls);
  EXPECT_EQ(few.fills, many.fills);
}

/// Whoever adds a launch on purpose raises the number.
TEST(StepLaunches, OfASmallDcnOnTwoRanks) {
  const simt::Counters step = counts_of_a_step(small_dcn(11));
  fmt::print("two ranks: {} kernels, {} library calls, {} fills, {} copies, {} host waits\n",
             step.kernels, step.library_calls, step.fills, step.copies, step.host_waits);
  EXPECT_LE(step.kernels, 100);
  EXPECT_LE(step.library_calls, 76);
  EXPECT_LE(step.fills, 4);
}

}  // namespace
}  // namespace dlrm
#endif
