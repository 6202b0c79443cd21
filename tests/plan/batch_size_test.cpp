#include "dlrm/plan/batch_size.h"

#include <cmath>

#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

using ::testing::HasSubstr;

/// Without a choice of plans or tiers, which depends on the memory.
RunConfig of_any_batch() {
  RunConfig config = odd_config(Strategy::kTable, 0);
  config.device = DeviceKind::kCpu;
  config.memory.tier = MemoryTier::kDevice;
  return config;
}

double batch_needs(RunConfig config, int64_t batch, int world) {
  config.train.global_batch_size = batch;
  double most = 0;
  for (const RankMemory& rank : rank_memory(config, make_plan(config, world))) {
    most = std::max(most, rank.total());
  }
  return most;
}

std::string error_of_choice(const RunConfig& config, const PlanOptions& options) {
  std::string said;
  return usage_error_of([&] { with_chosen_batch(config, 1, options, 0, said); });
}

TEST(ChosenBatch, IsTheLargestPowerOfTwoThatFits) {
  const RunConfig config = of_any_batch();
  std::string said;
  for (const int world : {1, 3}) {
    // Smaller batches leave open which tables a rank has, and with it the memory.
    for (const int64_t batch : {int64_t{256}, int64_t{4096}, int64_t{1} << 20}) {
      const double least = batch_needs(config, batch, world),
                   most = batch_needs(config, 2 * batch, world);
      for (const double memory : {least, (least + most) / 2, std::nextafter(most, 0)}) {
        const RunConfig chosen = with_chosen_batch(config, world, {memory}, 0, said);
        EXPECT_EQ(chosen.train.global_batch_size, batch) << world << " ranks, " << memory;
        EXPECT_THAT(said, HasSubstr(fmt::format(
                              "train.global_batch_size: auto is {} (a rank needs ", batch)));
        EXPECT_THAT(said, HasSubstr(fmt::format("for {}, and may use ", 2 * batch)));
      }
    }
  }
}

TEST(ChosenBatch, IsAtMostTheSamplesOfTheData) {
  std::string said;
  for (const auto& [samples, batch] : {std::pair{1, 1}, {2, 2}, {1000, 512}, {1024, 1024}}) {
    const RunConfig chosen = with_chosen_batch(of_any_batch(), 1, {0x1p40}, samples, said);
    EXPECT_EQ(chosen.train.global_batch_size, batch);
    EXPECT_THAT(said, HasSubstr(fmt::format("(of {} samples)", samples)));
  }
  EXPECT_EQ(with_chosen_batch(of_any_batch(), 1, {0x1p60}, 0, said).train.global_batch_size,
            int64_t{1} << 30);
}

TEST(ChosenBatch, LeavesASizeThatIsSet) {
  std::string said = "text";
  const RunConfig config = odd_config(Strategy::kAuto, 37);
  EXPECT_EQ(with_chosen_batch(config, 1, {}, 0, said), config);
  EXPECT_EQ(said, "");
}

TEST(ChosenBatch, NeedsMemoryThatIsKnownAndEnough) {
  EXPECT_THAT(error_of_choice(of_any_batch(), {}), HasSubstr("--device-memory"));
  EXPECT_THAT(error_of_choice(of_any_batch(), {1000}), HasSubstr("and may use 1000 B"));
}

/// A table that is in host memory by the config, which the host has no room for.
TEST(ChosenBatch, NamesTheHostsMemoryIfThatIsShort) {
  RunConfig config = config_of({table("large", 1000000, 16), table("small", 1000, 16)}, 0);
  config.device = DeviceKind::kCuda;
  config.memory.tables["large"] = MemoryTier::kHost;
  // 1,000,000 rows of 16 floats, and as many of state.
  const std::string error = error_of_choice(config, {0x1p40, 1, 0x1p25});
  EXPECT_THAT(error,
              HasSubstr("a rank needs 122.1 MiB of host memory for 1, and may use 32.0 MiB"));
}

TEST(ChosenBatch, MovesNoTableToTheHost) {
  RunConfig config = config_of({table("large", 1000000, 16), table("small", 1000, 16)}, 0);
  config.device = DeviceKind::kCuda;
  config.memory.tier = MemoryTier::kAuto;
  // Room for the tables and a batch of 4096, and a large host.
  const PlanOptions options{batch_needs(config, 4096, 1) + 1000, 1, 0x1p40};
  std::string said;
  const RunConfig chosen = with_chosen_batch(config, 1, options, 0, said);
  EXPECT_EQ(chosen.train.global_batch_size, 4096);
  EXPECT_THAT(said, HasSubstr("8192 would move tables to slower memory"));
}

}  // namespace
}  // namespace dlrm::plan_test
