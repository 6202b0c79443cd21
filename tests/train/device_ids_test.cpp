#include <cstdlib>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/device/device.h"
#include "dlrm/train/run.h"

#include "small_run.h"

namespace dlrm {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

/// Ids that are copied to a GPU, or to the emulated one.
class IdsOnADevice : public testing::TestWithParam<DeviceKind> {
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
                         testing::ValuesIn(cuda_device_count() > 0 ? std::vector{DeviceKind::kCuda}
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

TEST_P(IdsOnADevice, FixedRoutingOverNcclGivesTheBitsOfExact) {
  if (!cuda_is_emulated()) GTEST_SKIP() << "NCCL does not let ranks share a GPU";
  ::setenv("NCCL_HOSTID", "of this rank", 1);
  RunConfig exact = odd_model_of(Strategy::kRow, RoutingMode::kExact);
  RunConfig fixed = odd_model_of(Strategy::kRow, RoutingMode::kFixed);
  exact.comm = fixed.comm = CommKind::kNccl;
  expect_alike(train_on_threads(fixed, 2, 4), train_on_threads(exact, 2, 4), 0, 0);
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

TEST_P(IdsOnADevice, ABadIdIsFoundBeforeFixedRoutingDropsIt) {
  for (const int ranks : {1, 2}) {
    const RunConfig c = odd_model_of(Strategy::kRow, RoutingMode::kFixed);
    const std::vector<std::string> errors = errors_of_a_spoilt_id(c, ranks);
    EXPECT_THAT(errors[0], AllOf(HasSubstr("sample "), HasSubstr(": id 1073741824 in the")));
    EXPECT_THAT(errors, Each(errors[0]));
  }
}

}  // namespace
}  // namespace dlrm
