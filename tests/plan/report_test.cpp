// The reports of plans, letter by letter.
#include <cstdlib>
#include <sstream>

#include "dlrm/plan/simulate.h"

#include "plan/advice.h"
#include "plan/text.h"
#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

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

TEST(Report, OfACpuShowsLoadsMemoryAndAdvice) {
  EXPECT_EQ(
      report(four_cuts(), plan_of_cuts(), {1.2 * kGiB, 3}),
      R"(plan: 4 ranks, 5 tables: 1 whole, 1 cut by rows, 1 by columns, 1 by both, 1 data-parallel (on every rank)
    rank  tables  shards         GiB    lookups/step    MiB out/step    MiB in/step
       0       2       2       0.825          114691            12.1           12.1
       1       2       2       1.082          180230            13.2           13.4
       2       2       2       1.336          147460            17.2           17.3
       3       1       2       0.571           81923            11.3           11.1
   total       7       8       3.815          524304            53.9           53.9
    mean     1.8     2.0       0.954          131076            13.5           13.5
max/mean                        1.40            1.38            1.28           1.28
exchange of a step, MiB over all ranks: ids 1.4, pooled 25.3, gradients 25.3, data-parallel gradients 1.9
nodes: 2 of 3 ranks, the fullest with 3.243 GiB
heaviest rank over a lower bound: cost 1.85, memory 1.41
memory of rank 2, the fullest, GiB:
  tables                                     0.625
  optimizer state of tables                  0.625
  dense parameters, gradients, state         0.000
  activations                                0.037
  exchange                                   0.025
  routing                                    0.012
  input pipeline                             0.011
  total                                      1.336
  available                                  1.200
  largest there: 'columns' rows [0, 2097152) columns [16, 64) 0.750 GiB, 'grid' rows [0, 4194304) columns [0, 16) 0.500 GiB, 'small' (data-parallel) 0.000 GiB
  would fit: sharding.strategy: auto on 4 ranks, which cuts 'rows', 'columns', 'grid', 1 more
does not fit: needs 1.336 GiB a rank of 1.200 GiB
)");
}

const std::string kGpuLoads =
    R"(plan: 4 ranks, 5 tables: 1 whole, 1 cut by rows, 1 by columns, 1 by both, 1 data-parallel (on every rank)
    rank  tables  shards         GiB    lookups/step    MiB out/step    MiB in/step
       0       2       2       1.345          114691            12.1           12.1
       1       2       2       1.603          180230            13.2           13.4
       2       2       2       1.857          147460            17.2           17.3
       3       1       2       1.092           81923            11.3           11.1
   total       7       8       5.896          524304            53.9           53.9
    mean     1.8     2.0       1.474          131076            13.5           13.5
max/mean                        1.26            1.38            1.28           1.28
in the host's memory: 2 shards, 1 data-parallel table: 'rows', 'grid', 'small'
exchange of a step, MiB over all ranks: ids 1.4, pooled 25.3, gradients 25.3, data-parallel gradients 1.9
)";

const std::string kGpuRatios =
    "heaviest rank over a lower bound: cost 1.85, memory 1.27\n"
    "steps are launched as graphs if NCCL connects the ranks\n"
    "a step of a rank: 58 to 62 launches (42 to 45 kernels, 12 library calls, 4 to 5 fills), 4 "
    "collectives\n";

TEST(Report, NamesTheMachine) {
  const TemporaryFile file(
      R"({"name": "eight of them", "ranks_per_node": 8, "memory_bytes_per_second": 1e9,
          "local_bytes_per_second": 1e9, "network_bytes_per_second": 1e9})");
  RunConfig config = four_cuts();
  EXPECT_THAT(report(config, plan_of_cuts(), {}), ::testing::Not(HasSubstr("machine file")));
  config.sharding.machine = file.path();
  EXPECT_THAT(report(config, plan_of_cuts(), {}),
              HasSubstr("rates of the machine file " + file.path() + ": eight of them\n"));
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

TEST(Report, OfAGpuSaysHowStepsAreLaunched) {
  RunConfig config = four_cuts();
  const auto line = [&](const Plan& plan) {
    const std::string text = report(config, plan, {});
    const size_t first = text.find("steps are ");
    return first == std::string::npos ? "" : text.substr(first, text.find('\n', first) - first);
  };
  EXPECT_EQ(line(plan_of_cuts()), "");
  config.device = DeviceKind::kCuda;
  config.routing.mode = RoutingMode::kFixed;
  EXPECT_THAT(report(config, plan_of_cuts(), {}),
              HasSubstr("steps are launched as graphs if NCCL connects the ranks\n"
                        "GPUs exchange the ids themselves\n"));
  config.train.sparse_optimizer.type = OptimizerRule::kRowwiseAdagrad;
  EXPECT_EQ(line(plan_of_cuts()),
            "steps are launched as graphs if NCCL connects the ranks, unless the numbers of ids "
            "vary (fixed routing on the hosts)");
  config.comm = CommKind::kNccl;
  config.routing.mode = RoutingMode::kExact;
  EXPECT_EQ(line(plan_of_cuts()), "steps are launched as graphs");
  config.comm = CommKind::kStaged;
  EXPECT_EQ(line(plan_of_cuts()),
            "steps are queued operation by operation, because vectors pass through the host");
  EXPECT_EQ(line(make_plan(config, 1)), "steps are launched as graphs");
}

TEST(Report, OfAGpuShowsBothMemories) {
  RunConfig config = four_cuts();
  config.device = DeviceKind::kCuda;
  EXPECT_EQ(report(config, plan_with_host(), {}),
            kGpuLoads + kGpuRatios + R"(memory of rank 2, the fullest, GiB:
  tables                                     0.375
  optimizer state of tables                  0.375
  dense parameters, gradients, state         0.000
  activations                                0.063
  exchange                                   0.025
  routing                                    0.016
  input pipeline                             0.003
  libraries                                  0.500
  total on the device                        1.356
  available memory not known
  tables in the host's memory                0.250
  optimizer state of these                   0.250
  total of the host's memory                 0.500
  available memory not known
needs 1.356 GiB a rank, and 0.750 GiB in the host's memory
)");
  EXPECT_EQ(report(config, plan_with_host(), {2.0 * kGiB, 0, 0.9 * kGiB}),
            kGpuLoads + kGpuRatios + R"(memory of rank 2, the fullest, GiB:
  tables                                     0.375
  optimizer state of tables                  0.375
  dense parameters, gradients, state         0.000
  activations                                0.063
  exchange                                   0.025
  routing                                    0.016
  input pipeline                             0.003
  libraries                                  0.500
  total on the device                        1.356
  available                                  2.000
  tables in the host's memory                0.250
  optimizer state of these                   0.250
  total of the host's memory                 0.500
  available                                  0.900
fits: needs 1.356 GiB a rank of 2.000 GiB, and 0.750 GiB of 0.900 GiB in the host's memory
)");
}

TEST(Report, ShowsTheRankWhoseHostMemoryIsTooSmall) {
  RunConfig config = four_cuts();
  config.device = DeviceKind::kCuda;
  EXPECT_EQ(report(config, plan_with_host(), {2.0 * kGiB, 2, 0.25 * kGiB}),
            kGpuLoads + R"(nodes: 2 of 2 ranks, the fullest with 2.948 GiB
heaviest rank over a lower bound: cost 1.84, memory 1.27
steps are launched as graphs if NCCL connects the ranks
a step of a rank: 58 to 62 launches (42 to 45 kernels, 12 library calls, 4 to 5 fills), 4 collectives
memory of rank 1, the fullest, GiB:
  tables                                     0.125
  optimizer state of tables                  0.125
  dense parameters, gradients, state         0.000
  activations                                0.063
  exchange                                   0.017
  routing                                    0.020
  input pipeline                             0.003
  libraries                                  0.500
  total on the device                        0.853
  available                                  2.000
  tables in the host's memory                0.375
  optimizer state of these                   0.375
  total of the host's memory                 0.750
  available                                  0.250
  largest there: 'rows' rows [2097152, 8388608) columns [0, 16) (host) 0.750 GiB, 'columns' rows [0, 2097152) columns [0, 16) 0.250 GiB, 'small' (data-parallel) 0.000 GiB
  would fit: sharding.strategy: auto on 4 ranks, which cuts 'rows', 'columns', 'grid', 1 more
does not fit: needs 1.356 GiB a rank of 2.000 GiB, and 0.750 GiB of 0.250 GiB in the host's memory
)");
}

TEST(Report, OfOneRankWithoutExchangeIsInTheSingular) {
  const RunConfig config = config_of({table("t", 1 << 20, 16)}, 1 << 16);
  const Plan plan{1, {{0, {0, 1 << 20}, {0, 16}, 0}}, {}};
  EXPECT_EQ(
      report(config, plan, {0, 1}),
      R"(plan: 1 rank, 1 table: 1 whole, 0 cut by rows, 0 by columns, 0 by both, 0 data-parallel (on every rank)
    rank  tables  shards         GiB    lookups/step    MiB out/step    MiB in/step
       0       1       1       0.246           65536             0.0            0.0
   total       1       1       0.246           65536             0.0            0.0
    mean     1.0     1.0       0.246           65536             0.0            0.0
max/mean                        1.00            1.00            1.00           1.00
exchange of a step, MiB over all ranks: ids 0.0, pooled 0.0, gradients 0.0, data-parallel gradients 0.0
nodes: 1 of 1 rank, the fullest with 0.246 GiB
heaviest rank over a lower bound: cost 1.00, memory 1.00
memory of rank 0, the fullest, GiB:
  tables                                     0.062
  optimizer state of tables                  0.062
  dense parameters, gradients, state         0.000
  activations                                0.093
  exchange                                   0.000
  routing                                    0.005
  input pipeline                             0.023
  total                                      0.246
  available memory not known
needs 0.246 GiB a rank
)");
}

TEST(Report, OfACpuIgnoresMemoryOfTheHost) {
  EXPECT_EQ(report(four_cuts(), plan_of_cuts(), {0, 0, kGiB}),
            report(four_cuts(), plan_of_cuts(), {}));
}

TEST(Report, OneKnownMemoryIsComparedAlone) {
  RunConfig config = four_cuts();
  config.device = DeviceKind::kCuda;
  const auto last_line = [&](const PlanOptions& options) {
    const std::string text = report(config, plan_with_host(), options);
    return text.substr(text.rfind('\n', text.size() - 2) + 1);
  };
  EXPECT_EQ(last_line({0, 0, 0.9 * kGiB}),
            "fits: needs 1.356 GiB a rank, and 0.750 GiB of 0.900 GiB in the host's memory\n");
  EXPECT_EQ(last_line({0, 0, 0.7 * kGiB}),
            "does not fit: needs 1.356 GiB a rank, and 0.750 GiB of 0.700 GiB in the host's "
            "memory\n");
  EXPECT_EQ(last_line({1.4 * kGiB, 0, 0}),
            "fits: needs 1.356 GiB a rank of 1.400 GiB, and 0.750 GiB in the host's memory\n");
  EXPECT_EQ(last_line({1.3 * kGiB, 0, 0}),
            "does not fit: needs 1.356 GiB a rank of 1.300 GiB, and 0.750 GiB in the host's "
            "memory\n");
}

/// Of more than 16 ranks the first three, the last, and those with the most and the least memory,
/// lookups, and bytes out and in are listed.
TEST(DescribePlan, OfManyRanksTheExtremesAreListed) {
  std::vector<TableConfig> tables;
  for (int t = 0; t < 17; ++t) tables.push_back(table(fmt::format("t{}", t), 1000, 16));
  tables[5].rows = 1 << 20;
  tables[8].rows = 10;
  tables[11].features[0].hotness = 50;
  tables[13].dim = 64;
  Plan plan{17, {}, {}};
  for (int t = 0; t < 17; ++t) {
    const TableConfig& made = tables[static_cast<size_t>(t)];
    plan.shards.push_back({t, {0, made.rows}, {0, made.dim}, t});
  }
  const std::string text = describe_plan(config_of(tables, 170), plan);
  std::vector<std::string> ranks;
  std::istringstream lines(text.substr(text.find("MiB in/step") + 12));
  for (std::string line; std::getline(lines, line) && line.find("total") == std::string::npos;) {
    ranks.push_back(
        line.substr(line.find_first_not_of(' '), line.find(' ', 8) - line.find_first_not_of(' ')));
  }
  EXPECT_THAT(ranks, ::testing::ElementsAre("0", "1", "2", "...", "5", "...", "8", "...", "11",
                                            "...", "13", "...", "16"));
}

TEST(DescribePlan, OfManyTablesInTheHostsMemoryEightAreNamed) {
  std::vector<TableConfig> tables;
  Plan plan{1, {}, {}};
  for (int t = 0; t < 9; ++t) {
    tables.push_back(table(fmt::format("t{}", t), 10, 4));
    plan.shards.push_back({t, {0, 10}, {0, 4}, 0, MemoryTier::kHost});
  }
  RunConfig config = config_of(tables, 4);
  config.device = DeviceKind::kCuda;
  EXPECT_THAT(
      describe_plan(config, plan),
      HasSubstr("\nin the host's memory: 9 shards, 0 data-parallel tables: 't0', 't1', 't2', "
                "'t3', 't4', 't5', 't6', 't7', 1 more\n"));
  plan.shards[0].tier = MemoryTier::kDevice;
  EXPECT_THAT(describe_plan(config, plan),
              HasSubstr("'t1', 't2', 't3', 't4', 't5', 't6', 't7', 't8'\n"));
}

/// 16 ranks are all listed, 17 are not.
TEST(DescribePlan, SixteenRanksAreAllListed) {
  const RunConfig config = odd_config(Strategy::kRow);
  const auto lines = [&](int world) {
    const std::string text = describe_plan(config, make_plan(config, world));
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(lines(16), 2 + 16 + 4);
  EXPECT_LT(lines(17), 2 + 17 + 4);
}

TEST(GibText, SmallSizesHaveThreeDecimals) {
  EXPECT_EQ(gib_text(9.9994 * kGiB), "9.999");
  EXPECT_EQ(gib_text(10 * kGiB), "10.0");
  EXPECT_EQ(gib_text(0), "0.000");
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

TEST(LargestTables, ThreeOfTheRankAreNamedTheLargestFirst) {
  const RunConfig config =
      config_of({table("a", 1 << 18, 16), table("b", 1 << 20, 16), table("c", 1 << 19, 16),
                 table("d", 1 << 19, 32), table("e", 1 << 22, 16)},
                64);
  const Plan plan{2,
                  {{0, {0, 1 << 18}, {0, 16}, 0},
                   {1, {0, 1 << 20}, {0, 16}, 0},
                   {3, {0, 1 << 19}, {4, 20}, 0, MemoryTier::kHost},
                   {4, {0, 1 << 22}, {0, 16}, 1}},
                  {2}};
  // Rows and state.
  EXPECT_EQ(largest_tables(config, plan, 0),
            "'b' 0.125 GiB, 'd' rows [0, 524288) columns [4, 20) (host) 0.062 GiB, "
            "'c' (data-parallel) 0.062 GiB");
  EXPECT_EQ(largest_tables(config, plan, 1), "'e' 0.500 GiB, 'c' (data-parallel) 0.062 GiB");
  EXPECT_EQ(largest_tables(config, {1, {}, {}}, 0), "no table");
}

TEST(WhatWouldFit, TheFewestRanksAreFound) {
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
    EXPECT_FALSE(fits(ranks - 1)) << ranks;
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

TEST(WhatWouldFit, AutoNamesThreeOfTheTablesThatItCuts) {
  RunConfig config = config_of_equal_tables(0);
  for (int t = 0; t < 5; ++t) {
    config.model.tables.push_back(table(fmt::format("u{}", t), (8 + t) << 20, 16));
  }
  EXPECT_EQ(what_would_fit(config, make_plan(config, 8), {0.45 * kGiB}),
            "sharding.strategy: auto on 8 ranks, which cuts 'u4', 'u3', 'u2', 2 more");
}

TEST(WhatWouldFit, StrategiesOfTablesAreLeftToAuto) {
  RunConfig config = config_of_equal_tables(0);
  config.model.tables = {table("big", 16 << 20, 16), table("small", 1000, 16)};
  config.sharding.strategy = Strategy::kAuto;
  config.sharding.tables = {{"big", Strategy::kTable}};
  EXPECT_EQ(what_would_fit(config, make_plan(config, 4), {0.5 * kGiB}),
            "sharding.strategy: auto on 4 ranks, which cuts 'big', 'small'");
}

TEST(WhatWouldFit, ManyRanksAreFoundNearly) {
  RunConfig config = config_of_equal_tables(0);
  config.model.tables = {table("huge", int64_t{1} << 30, 16)};
  // 64 GiB. Above 64 ranks the search ends within a thirty-second of the smallest number.
  EXPECT_EQ(what_would_fit(config, make_plan(config, 2), {0.5 * kGiB}),
            "129 ranks with sharding.strategy: auto");
  EXPECT_EQ(what_would_fit(config, make_plan(config, 150), {0.3 * kGiB}),
            "214 ranks with sharding.strategy: auto");
}

TEST(WhatWouldFit, AnUnknownMemoryOfTheDeviceIsNoLimit) {
  RunConfig config = config_of_equal_tables(4);
  config.device = DeviceKind::kCuda;
  config.memory.tier = MemoryTier::kHost;
  EXPECT_EQ(what_would_fit(config, make_plan(config, 1), {0, 0, 0.1 * kGiB}),
            "memory.tier: auto, and no memory.tables");
  config.memory.tier = MemoryTier::kAuto;
  config.memory.tables = {
      {"t0", MemoryTier::kHost}, {"t1", MemoryTier::kHost}, {"t2", MemoryTier::kHost}};
  EXPECT_EQ(what_would_fit(config, make_plan(config, 1), {0, 0, 0.1 * kGiB}),
            "memory.tier: auto, and no memory.tables");
}

TEST(WhatWouldFit, TablesBoundToTheDeviceMayGoToTheHost) {
  RunConfig config = config_of_equal_tables(12);
  config.device = DeviceKind::kCuda;
  for (const TableConfig& t : config.model.tables) {
    config.memory.tables[t.name] = MemoryTier::kDevice;
  }
  EXPECT_EQ(what_would_fit(config, make_plan(config, 1), {0.8 * kGiB, 0, 4 * kGiB}),
            "memory.tier: auto, and no memory.tables");
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

TEST(WhatWouldFit, TooManyTablesNeedMoreRanksThanAreTried) {
  const RunConfig config =
      config_of({table("t", int64_t{1} << 40, 1024), table("u", int64_t{1} << 39, 1024)}, 64,
                Strategy::kTable);
  EXPECT_EQ(what_would_fit(config, make_plan(config, 1), {kGiB}),
            "up to 16384 ranks nothing was found (all tables need 12582912.0 GiB); a smaller "
            "train.global_batch_size, tables, or a lighter train.sparse_optimizer");
}

}  // namespace
}  // namespace dlrm::plan_test
