// What a step queues on a GPU, counted by the emulator.
#if defined(DLRM_SIMT)
#include <cstdlib>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "simt/simt.h"
#include "train/small_run.h"

namespace dlrm {
namespace {

/// MLPerf's DCNv2 in small: three cross layers and bf16. `small` tables are data-parallel, `large`
/// ones are cut by columns. All bags have one id, so that sizes do not depend on the batch.
RunConfig small_dcn(int small, int large) {
  RunConfig c = odd_model();
  c.model.interaction = CrossConfig{3, 4};
  c.model.tables.clear();
  c.sharding.tables.clear();
  for (int t = 0; t < small + large; ++t) {
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

/// How much more `count` becomes in a run of both ranks that has one step more.
int64_t of_a_step(const RunConfig& config, uint64_t (*count)(const simt::Counters&)) {
  const auto counted = [&](int steps) {
    const uint64_t before = count(simt::counters());
    train_on_threads(config, 2, steps);
    return static_cast<int64_t>(count(simt::counters()) - before);
  };
  return counted(9) - counted(8);
}

/// The kernels and calls of libraries.
int64_t launches_of_a_step(const RunConfig& config) {
  return of_a_step(config, [](const simt::Counters& all) {
    return all.kernels + all.library_calls + all.fills;
  });
}

TEST(SteadySteps, AllocateNoMemoryOfTheDeviceAndNonePinned) {
  const auto allocations = [](const simt::Counters& all) { return all.allocations; };
  EXPECT_EQ(of_a_step(small_dcn(2, 2), allocations), 0);
}

TEST(StepLaunches, DoNotDependOnTheNumberOfDataParallelTables) {
  EXPECT_EQ(launches_of_a_step(small_dcn(2, 2)), launches_of_a_step(small_dcn(11, 2)));
}

/// Tables of one width and optimizer are looked up, sorted and updated together.
TEST(StepLaunches, DoNotDependOnTheNumberOfTablesThatAreCutAlike) {
  EXPECT_EQ(launches_of_a_step(small_dcn(2, 2)), launches_of_a_step(small_dcn(2, 7)));
}

}  // namespace
}  // namespace dlrm
#endif
