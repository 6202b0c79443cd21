// What reports of plans say.
#include <cstdlib>

#include "dlrm/plan/simulate.h"

#include "plan/advice.h"
#include "plan/text.h"
#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string report(const RunConfig& config, const Plan& plan, const PlanOptions& options) {
  char* data = nullptr;
  size_t size = 0;
  std::FILE* out = open_memstream(&data, &size);
  print_plan_report(out, config, plan, options);
  std::fclose(out);
  std::string text(data, size);
  std::free(data);
  return text;
}

/// Tables of every cut, on 4 ranks.
RunConfig four_cuts() {
  return config_of(
      {table("whole", 1 << 22, 16), table("rows", 1 << 23, 16, {2}), table("columns", 1 << 21, 64),
       table("grid", 1 << 22, 32), table("small", 1 << 14, 4)},
      (1 << 16) + 2);
}

Plan plan_of_cuts() {
  const int64_t m = 1 << 20;
  Plan plan{4,
            {{0, {0, 4 * m}, {0, 16}, 0},
             {1, {0, 2 * m}, {0, 16}, 0},
             {1, {2 * m, 8 * m}, {0, 16}, 1},
             {2, {0, 2 * m}, {0, 16}, 1},
             {2, {0, 2 * m}, {16, 64}, 2},
             {3, {0, 4 * m}, {0, 16}, 2},
             {3, {0, m}, {16, 32}, 3},
             {3, {m, 4 * m}, {16, 32}, 3}},
            {4}};
  return plan;
}

/// The same on GPUs, with parts of two tables and the replica in the host's memory.
Plan plan_with_host() {
  Plan plan = plan_of_cuts();
  plan.shards[2].tier = plan.shards[5].tier = MemoryTier::kHost;
  plan.host_replicas = {4};
  return plan;
}

TEST(Report, SaysWhatTheFullestRankHoldsAndWhatWouldFit) {
  EXPECT_THAT(
      report(four_cuts(), plan_of_cuts(), {1.2 * kGiB, 3}),
      AllOf(HasSubstr("plan: 4 ranks, 5 tables: 1 whole, 1 cut by rows, 1 by columns, 1 by both, "
                      "1 data-parallel"),
            HasSubstr("memory of rank 2, the fullest"), HasSubstr("largest there: 'columns'"),
            HasSubstr("would fit: sharding.strategy: auto"),
            HasSubstr("does not fit: needs 1.336 GiB a rank of 1.200 GiB")));
}

TEST(Report, OfAGpuComparesBothMemories) {
  RunConfig config = four_cuts();
  config.device = DeviceKind::kCuda;
  const std::string text = report(config, plan_with_host(), {2.0 * kGiB, 2, 0.25 * kGiB});
  // The rank with the least room in either memory, not the one that takes most of the device.
  EXPECT_THAT(text, AllOf(HasSubstr("in the host's memory: 2 shards, 1 data-parallel table"),
                          HasSubstr("memory of rank 1, the fullest"), HasSubstr("does not fit")));
}

TEST(Report, PredictsAStepIfTheMachineFileHasTheRates) {
  const TemporaryFile file(
      R"({"ranks_per_node": 8, "memory_bytes_per_second": 1e9, "local_bytes_per_second": 1e9,
          "network_bytes_per_second": 1e9, "fp32_products_per_second": 1e9})");
  RunConfig config = four_cuts();
  config.sharding.machine = file.path();
  const double step = simulate_step(config, plan_of_cuts(), {}).step;
  EXPECT_THAT(report(config, plan_of_cuts(), {}),
              HasSubstr(fmt::format("a step there, predicted: {:.3f} ms, ", 1e3 * step)));
  config.train.precision = Precision::kBf16;
  EXPECT_THAT(report(config, plan_of_cuts(), {}), ::testing::Not(HasSubstr("predicted")));
}

TEST(Report, OfACpuIgnoresMemoryOfTheHost) {
  EXPECT_EQ(report(four_cuts(), plan_of_cuts(), {0, 0, kGiB}),
            report(four_cuts(), plan_of_cuts(), {}));
}

// Advice.

/// `count` tables of 64 MiB each with SGD, on as many ranks as `world`.
RunConfig config_of_equal_tables(int count) {
  std::vector<TableConfig> tables;
  for (int t = 0; t < count; ++t) tables.push_back(table(fmt::format("t{}", t), 1 << 20, 16));
  RunConfig config = config_of(tables, 64, Strategy::kTable);
  config.train.sparse_optimizer.type = OptimizerRule::kSgd;
  return config;
}

TEST(WhatWouldFit, NearlyTheFewestRanksAreFound) {
  const RunConfig config = config_of_equal_tables(40);
  RunConfig automatic = config;
  automatic.sharding.strategy = Strategy::kAuto;
  for (const double room : {0.07 * kGiB, 0.1 * kGiB, 0.2 * kGiB, 0.5 * kGiB}) {
    const auto fits = [&](int ranks) {
      return fits_memory(automatic, make_plan(automatic, ranks, {room}), {room});
    };
    const std::string advice = what_would_fit(config, make_plan(config, 3), {room});
    const int ranks = std::atoi(advice.c_str());
    EXPECT_EQ(advice, fmt::format("{} ranks with sharding.strategy: auto", ranks));
    EXPECT_TRUE(fits(ranks)) << ranks;
    EXPECT_FALSE(fits(ranks * 7 / 8)) << ranks;
  }
}

TEST(WhatWouldFit, MemoryOfTheHostIsRoomToo) {
  RunConfig config = config_of_equal_tables(12);
  config.device = DeviceKind::kCuda;
  const PlanOptions little{0.6 * kGiB, 0, 0.1 * kGiB};
  EXPECT_EQ(what_would_fit(config, make_plan(config, 1), little),
            "5 ranks with sharding.strategy: auto");
  config.model.tables = config_of_equal_tables(100).model.tables;  // 6.25 GiB
  const PlanOptions much{0.6 * kGiB, 0, 4 * kGiB};
  EXPECT_EQ(what_would_fit(config, make_plan(config, 1), much),
            "2 ranks with sharding.strategy: auto");
}

TEST(WhatWouldFit, StrategiesOfTablesAreLeftToAuto) {
  RunConfig config = config_of_equal_tables(0);
  config.model.tables = {table("big", 16 << 20, 16), table("small", 1000, 16)};
  config.sharding.strategy = Strategy::kAuto;
  config.sharding.tables = {{"big", Strategy::kTable}};
  EXPECT_THAT(what_would_fit(config, make_plan(config, 4), {0.5 * kGiB}),
              HasSubstr("sharding.strategy: auto on 4 ranks"));
}

TEST(WhatWouldFit, OpenTiersAreNotAdvised) {
  RunConfig config = config_of_equal_tables(12);
  config.device = DeviceKind::kCuda;
  config.memory.tables = {{"t1", MemoryTier::kDevice}};
  const PlanOptions options{0.8 * kGiB, 0, 4 * kGiB};
  const std::string tiers = "memory.tier: auto, and no memory.tables";
  config.memory.tier = MemoryTier::kDevice;
  EXPECT_EQ(what_would_fit(config, make_plan(config, 1), options), tiers);
  config.memory.tables.clear();
  EXPECT_EQ(what_would_fit(config, make_plan(config, 1), options), tiers);
  config.memory.tier = MemoryTier::kAuto;
  EXPECT_EQ(what_would_fit(config, make_plan(config, 1), options),
            "sharding.strategy: auto on 1 rank");
}

}  // namespace
}  // namespace dlrm::plan_test
