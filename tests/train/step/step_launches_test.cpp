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

/// The kernels and calls of libraries of one step of both ranks.
int64_t launches_of_a_step(const RunConfig& config) {
  const auto counted = [&](int steps) {
    const simt::Counters before = simt::counters();
    train_on_threads(config, 2, steps);
    const simt::Counters after = simt::counters();
    return static_cast<int64_t>(after.kernels + after.library_calls + after.fills) -
           static_cast<int64_t>(before.kernels + before.library_calls + before.fills);
  };
  return counted(7) - counted(6);
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
