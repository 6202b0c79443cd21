#include "dlrm/plan/cache_size.h"

#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// 64, 32 and 64 MB of rows of 64 bytes, and a table that is too small to be cached.
const std::vector<TableConfig> kFour = {table("cold", 1000000, 16), table("hot", 500000, 16, {9}),
                                        table("warm", 1000000, 16, {4}), table("small", 1000, 16)};

RunConfig on_cpu() {
  RunConfig config = config_of(kFour, 8);
  config.device = DeviceKind::kCpu;
  config.train.sparse_optimizer.type = OptimizerRule::kSgd;
  return config;
}

double needed(const RunConfig& config, int world = 1) {
  double most = 0;
  for (const RankMemory& rank : rank_memory(config, make_plan(config, world))) {
    most = std::max(most, rank.total());
  }
  return most;
}

std::vector<std::string> cached_in(const RunConfig& config) {
  std::vector<std::string> names;
  for (const TableConfig& of : config.model.tables) {
    if (config.memory.tier_of(of.name) == MemoryTier::kCached) names.push_back(of.name);
  }
  return names;
}

TEST(ChosenCaches, AreNoneIfEverythingFitsOrMemoryIsNotKnown) {
  const RunConfig config = on_cpu();
  EXPECT_EQ(with_chosen_caches(config, 1, {needed(config)}), config);
  EXPECT_EQ(with_chosen_caches(config, 1, {}), config);
  EXPECT_EQ(describe_choice(config, config), "");
}

TEST(ChosenCaches, TakeTheTablesWithTheFewestLookupsPerByte) {
  const RunConfig config = on_cpu();
  const double all = needed(config);
  const auto chosen = [&](double missing) {
    const PlanOptions options{all - missing};
    const RunConfig with = with_chosen_caches(config, 1, options);
    EXPECT_TRUE(fits_memory(with, make_plan(with, 1, options), options)) << missing;
    return cached_in(with);
  };
  EXPECT_THAT(chosen(1), ElementsAre("cold"));
  EXPECT_THAT(chosen(30e6), ElementsAre("cold"));
  EXPECT_THAT(chosen(70e6), ElementsAre("cold", "warm"));
  EXPECT_THAT(chosen(90e6), ElementsAre("cold", "hot", "warm"));
}

/// Of n tables, those with the fewest lookups per byte are cached, and as few as are enough.
TEST(ChosenCaches, AreAsFewTablesAsAreEnough) {
  for (size_t n = 1; n <= 9; ++n) {
    RunConfig config = on_cpu();
    config.model.tables = {table("small", 1000, 16)};
    std::vector<std::string> names;
    for (size_t t = 0; t < n; ++t) {
      names.push_back(fmt::format("t{}", t));
      const auto hotness = static_cast<int64_t>(t + 1);
      config.model.tables.insert(config.model.tables.begin(),
                                 table(names.back(), 1000000, 16, {hotness}));
    }
    RunConfig least = config;
    least.memory.cached.fast = "1KiB";
    std::vector<std::string> expected;
    for (size_t cached = 1; cached <= n; ++cached) {
      least.memory.tables[names[cached - 1]] = MemoryTier::kCached;
      expected.insert(expected.begin(), names[cached - 1]);
      const PlanOptions options{needed(least) + 1e6};
      const RunConfig with = with_chosen_caches(config, 1, options);
      EXPECT_EQ(cached_in(with), expected) << n << " tables";
      const double taken = needed(with);
      EXPECT_LE(taken, options.rank_memory_bytes) << n << " " << cached;
      EXPECT_GT(taken, options.rank_memory_bytes - 0.2e6) << n << " " << cached;
    }
  }
}

TEST(ChosenCaches, MayAllHaveSizesOfTheirOwn) {
  RunConfig config = on_cpu();
  config.memory.cached.tables["cold"] = "1MiB";
  const PlanOptions options{needed(config) - 1};
  const RunConfig with = with_chosen_caches(config, 1, options);
  EXPECT_TRUE(fits_memory(with, make_plan(with, 1, options), options));
  EXPECT_THAT(cached_in(with), ElementsAre("cold"));
}

TEST(ChosenCaches, KeepASizeThatTheConfigSets) {
  RunConfig config = on_cpu();
  config.memory.cached.fast = "1MiB";
  const RunConfig with = with_chosen_caches(config, 1, {needed(config) - 30e6});
  EXPECT_THAT(cached_in(with), ElementsAre("cold"));
  EXPECT_EQ(with.memory.cached.fast, "1MiB");
}

TEST(ChosenCaches, LeaveTablesWithATierAlone) {
  RunConfig config = on_cpu();
  config.memory.tables["cold"] = MemoryTier::kDevice;
  EXPECT_THAT(cached_in(with_chosen_caches(config, 1, {needed(config) - 1})), ElementsAre("warm"));
  config.memory.tier = MemoryTier::kDevice;
  EXPECT_EQ(with_chosen_caches(config, 1, {needed(config) - 1}), config);
}

TEST(ChosenCaches, AreNoneIfCachesWouldNotFitEither) {
  const RunConfig config = on_cpu();
  EXPECT_EQ(with_chosen_caches(config, 1, {1e6}), config);
}

TEST(ChosenCaches, HaveFewerRowsThanASliceCanNumber) {
  RunConfig config = on_cpu();
  config.model.tables[0].rows = int64_t{5} << 31;
  const PlanOptions options{200e9};
  EXPECT_THAT(cached_in(with_chosen_caches(config, 1, options)), IsEmpty());
  config.sharding.strategy = Strategy::kRow;
  EXPECT_THAT(cached_in(with_chosen_caches(config, 7, options)), IsEmpty());
  const PlanOptions less{50e9};
  const RunConfig with = with_chosen_caches(config, 7, less);
  EXPECT_THAT(cached_in(with), ElementsAre("cold"));
  for (const Shard& shard : make_plan(with, 7, less).shards) {
    EXPECT_LT(shard.rows.size(), int64_t{1} << 31);
  }
}

TEST(ChosenCaches, FitOnEveryRankUnderEveryStrategy) {
  for (const Strategy strategy :
       {Strategy::kAuto, Strategy::kTable, Strategy::kRow, Strategy::kColumn, Strategy::kGrid}) {
    RunConfig config = on_cpu();
    config.sharding.strategy = strategy;
    const PlanOptions options{0.8 * needed(config, 3)};
    const RunConfig with = with_chosen_caches(config, 3, options);
    EXPECT_TRUE(fits_memory(with, make_plan(with, 3, options), options))
        << static_cast<int>(strategy);
  }
}

TEST(ChosenCaches, OfAGpuAreTheLastResort) {
  RunConfig config = on_cpu();
  config.device = DeviceKind::kCuda;
  const double tables = 160e6;
  PlanOptions options{needed(config) - 60e6, 0, 70e6};
  EXPECT_EQ(with_chosen_caches(config, 1, options), config) << "the host has room";
  options.host_memory_bytes = 40e6;
  const RunConfig with = with_chosen_caches(config, 1, options);
  EXPECT_THAT(cached_in(with), Not(IsEmpty()));
  EXPECT_TRUE(fits_memory(with, make_plan(with, 1, options), options));
  options.host_memory_bytes = 0;
  EXPECT_EQ(with_chosen_caches(config, 1, options), config) << "the host is not known";
  options.host_memory_bytes = tables;
  config.memory.host = "40000KiB";
  EXPECT_THAT(cached_in(with_chosen_caches(config, 1, options)), Not(IsEmpty()));
}

TEST(ChosenCaches, AreDescribedInOneLine) {
  const RunConfig config = on_cpu();
  const RunConfig with = with_chosen_caches(config, 1, {needed(config) - 30e6});
  const std::string line = describe_choice(config, with);
  EXPECT_THAT(line, HasSubstr("memory.tier: auto caches 1 table that does not fit: 'cold'; fast "
                              "memory of 0.0"));
  EXPECT_THAT(line, HasSubstr(" GiB for the rows of a rank, over the SSD\n"));
}

TEST(HostBudget, LimitsTheMemoryOfACpu) {
  RunConfig config = on_cpu();
  config.memory.host = "1MiB";
  EXPECT_EQ(device_budget(config, {2e9}), 0x1p20);
  EXPECT_EQ(device_budget(config, {}), 0x1p20);
  config.memory.host = "50%";
  EXPECT_EQ(device_budget(config, {2e9}), 1e9);
  config.memory.host = "4GiB";
  EXPECT_EQ(device_budget(config, {2e9}), 2e9);
  config.device = DeviceKind::kCuda;
  EXPECT_EQ(host_budget(config, {1e9, 0, 8e9}), 0x1p32);
  EXPECT_EQ(device_budget(config, {1e9, 0, 8e9}), 1e9);
}

}  // namespace
}  // namespace dlrm::plan_test
