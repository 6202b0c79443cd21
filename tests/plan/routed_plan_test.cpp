// Which plan and which routing `routing.mode: auto` takes.
#include "dlrm/plan/routed_plan.h"

#include <nlohmann/json.hpp>

#include "dlrm/core/file.h"
#include "dlrm/plan/simulate.h"

#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

using ::testing::HasSubstr;

constexpr RoutingMode kExact = RoutingMode::kExact, kFixed = RoutingMode::kFixed;
constexpr const char* kH200 = DLRM_SOURCE "/configs/machines/h200_dgx.json";

/// Of a run that keeps this plan.
RoutingMode mode_of(const RunConfig& config, const Plan& plan, const PlanOptions& options) {
  return make_routed_plan(config, plan.world, options, plan).mode;
}

TEST(ChosenRouting, IsFixedIfTheIdsOfAllRanksAreFewerBytesThanVectors) {
  RunConfig config = two_tables();
  EXPECT_EQ(mode_of(config, whole_tables(2), {}), kFixed);
  EXPECT_EQ(mode_of(config, whole_tables(3), {}), kFixed);  // 3 · 12 ≤ 40 floats
  EXPECT_EQ(mode_of(config, whole_tables(4), {}), kExact);
  PlanOptions options;
  options.ranks_per_node = 4;
  EXPECT_EQ(mode_of(config, whole_tables(4), options), kFixed);
  EXPECT_EQ(mode_of(config, whole_tables(5), options), kExact);
  config.routing.mode = kFixed;
  EXPECT_EQ(mode_of(config, whole_tables(4), {}), kFixed);
  config.routing.mode = kExact;
  EXPECT_EQ(mode_of(config, whole_tables(2), {}), kExact);
}

TEST(ChosenRouting, CountsTheVectorsOfEmptyBags) {
  RunConfig config = two_tables();
  // Exact routing returns half of the bags of b.
  const Plan plan{
      2, {{0, {0, 100}, {0, 24}, 0}, {1, {0, 30}, {0, 8}, 0}, {1, {30, 60}, {0, 8}, 1}}, {2}};
  // Ids of two ranks take 24 floats, and vectors and gradients of empty bags 2 · 16.
  EXPECT_EQ(mode_of(config, plan, {}), kExact);
}

TEST(ChosenRouting, IsExactIfMemoryIsTooSmallForAllIds) {
  RunConfig config = two_tables();
  const Plan plan = whole_tables(2);
  const double exact = rank_memory(config, plan)[0].total();
  config.routing.mode = kFixed;
  const double fixed = rank_memory(config, plan)[0].total();
  config.routing.mode = RoutingMode::kAuto;
  ASSERT_LT(exact, fixed);
  PlanOptions options;
  options.gpu = true;
  options.rank_memory_bytes = fixed * 2;
  EXPECT_EQ(mode_of(config, plan, options), kFixed);
  options.rank_memory_bytes = (exact + fixed) / 2;
  EXPECT_EQ(mode_of(config, plan, options), kExact);
}

/// Three equal tables of one id a bag on two GPUs of a node. One of them is cut: by rows for
/// *exact*, by columns for *fixed*, which returns the vectors of all bags.
RunConfig one_of_three_cut() {
  RunConfig config =
      config_of({table("a", 30000, 64), table("b", 30000, 64), table("c", 30000, 64)}, 4096);
  config.device = DeviceKind::kCuda;
  config.train.sparse_optimizer.type = OptimizerRule::kSgd;
  config.train.threads = 1;
  return config;
}

constexpr PlanOptions kOneNode{0, 2};

RunConfig with_mode(RunConfig config, RoutingMode mode) {
  config.routing.mode = mode;
  return config;
}

Plan plan_for(const RunConfig& config, RoutingMode mode, int world,
              const PlanOptions& options = kOneNode) {
  return make_plan(with_mode(config, mode), world, options);
}

void expect_choice(const RunConfig& config, RoutingMode mode, int world = 2,
                   const PlanOptions& options = kOneNode) {
  const RoutedPlan routed = make_routed_plan(config, world, options);
  EXPECT_EQ(routed.mode, mode);
  EXPECT_EQ(routed.plan, plan_for(config, mode, world, options));
}

/// A machine file with other seconds of a host for an id.
std::string h200(double route_id) {
  nlohmann::json machine = nlohmann::json::parse(read_text(kH200, size_t{1} << 20));
  machine["route_id_seconds"] = route_id;
  return machine.dump();
}

TEST(RoutedPlan, TheShorterSimulatedStepIsTaken) {
  for (const auto& [seconds, mode] : {std::pair{9.5e-8, kFixed}, {9.5e-9, kExact}}) {
    const TemporaryFile machine(h200(seconds));
    RunConfig config = one_of_three_cut();
    config.sharding.machine = machine.path();
    expect_choice(config, mode);
    const auto step = [&](RoutingMode of) {
      return 1e3 * simulate_step(with_mode(config, of), plan_for(config, of, 2), kOneNode).step;
    };
    const RoutedPlan routed = make_routed_plan(config, 2, kOneNode);
    EXPECT_THAT(routed.said, HasSubstr(fmt::format("exact {:.3f} ms)", step(kExact))));
    EXPECT_THAT(routed.said, HasSubstr(mode == kFixed ? "auto is fixed (" : "auto is exact ("));
    EXPECT_EQ(step(kFixed) < step(kExact), mode == kFixed);
    // A resumed run makes the same choice from its plan alone.
    EXPECT_EQ(mode_of(config, routed.plan, kOneNode), mode);
  }
}

/// Simulated: 2.017 ms, with *exact* 1.999 ms.
TEST(RoutedPlan, StaysWithFixedIfExactIsHardlyBetter) {
  const RunConfig config =
      load_config(DLRM_SOURCE "/configs/mlperf_dcnv2.yaml",
                  {"train.precision=bf16", fmt::format("sharding.machine={}", kH200)});
  const PlanOptions options{.ranks_per_node = 8, .gpu = true};
  const RoutedPlan routed = make_routed_plan(config, 8, options);
  EXPECT_EQ(routed.mode, kFixed);
  EXPECT_EQ(routed.plan, make_plan(config, 8, options));
  const auto step = [&](RoutingMode mode) {
    return simulate_step(with_mode(config, mode), routed.plan, options).step;
  };
  EXPECT_LT(step(kExact), step(kFixed));
}

TEST(RoutedPlan, WithoutASimulationTheHostsTimeDecides) {
  RunConfig config = one_of_three_cut();
  expect_choice(config, kFixed);
  EXPECT_EQ(mode_of(config, plan_for(config, kFixed, 2), kOneNode), kFixed);
  EXPECT_THAT(make_routed_plan(config, 2, kOneNode).said, HasSubstr("estimated steps: fixed "));
  config.train.threads = 100;
  expect_choice(config, kExact);
  config.train.threads = 1;
  expect_choice(config, kExact, 2, {});      // perhaps on two nodes
  expect_choice(config, kExact, 2, {0, 1});  // on two nodes
  // A machine file that does not say what hosts need.
  nlohmann::json machine = nlohmann::json::parse(h200(1));
  machine.erase("route_id_seconds");
  const TemporaryFile file(machine.dump());
  config.sharding.machine = file.path();
  expect_choice(config, kFixed);
}

TEST(RoutedPlan, FitsTheMemory) {
  for (const bool simulated : {false, true}) {
    RunConfig config = one_of_three_cut();
    const TemporaryFile machine(h200(9.5e-8));
    if (simulated) config.sharding.machine = machine.path();
    const Plan plan = plan_for(config, kFixed, 2);
    const auto needed = [&](RoutingMode mode) {
      const std::vector<RankMemory> ranks = rank_memory(with_mode(config, mode), plan);
      return std::max(ranks[0].total(), ranks[1].total());
    };
    ASSERT_LT(needed(kExact), needed(kFixed));
    PlanOptions options = kOneNode;
    options.rank_memory_bytes = needed(kFixed);
    EXPECT_EQ(mode_of(config, plan, options), kFixed);
    options.rank_memory_bytes = (needed(kExact) + needed(kFixed)) / 2;
    EXPECT_EQ(mode_of(config, plan, options), kExact);
    // A plan may have rows in the host's memory.
    const RoutedPlan routed = make_routed_plan(config, 2, options);
    EXPECT_TRUE(fits_memory(with_mode(config, routed.mode), routed.plan, options));
  }
}

TEST(RoutedPlan, KeepsAPlanAndAMode) {
  const TemporaryFile machine(h200(9.5e-8));
  RunConfig config = one_of_three_cut();
  config.sharding.machine = machine.path();
  const Plan rows = plan_for(config, kExact, 2);
  EXPECT_EQ(make_routed_plan(config, 2, kOneNode, rows).plan, rows);
  EXPECT_EQ(make_routed_plan(config, 2, kOneNode, rows).mode, kFixed);  // still faster
  for (const RoutingMode mode : {kExact, kFixed}) {
    const RoutedPlan routed = make_routed_plan(with_mode(config, mode), 2, kOneNode);
    EXPECT_EQ(routed.mode, mode);
    EXPECT_EQ(routed.plan, plan_for(config, mode, 2));
    EXPECT_EQ(routed.said, "");
  }
  const std::string path = ::testing::TempDir() + "/kept_plan.json";
  std::ofstream(path) << to_json(rows, config.model);
  config.sharding.plan = path;
  EXPECT_EQ(make_routed_plan(config, 2, kOneNode).plan.shards, rows.shards);
  std::filesystem::remove(path);
}

TEST(RoutedPlan, IsExactIfDevicesCannotExchangeIds) {
  RunConfig config = one_of_three_cut();
  config.comm = CommKind::kStaged;
  expect_choice(config, kExact);
  EXPECT_EQ(make_routed_plan(config, 2, kOneNode).said, "");
  config.comm = CommKind::kAuto;
  config.memory.tier = MemoryTier::kCached;
  EXPECT_EQ(make_routed_plan(config, 2, kOneNode).mode, kExact);
  EXPECT_EQ(make_routed_plan(config, 2, kOneNode).said, "");
  config.memory.tier = MemoryTier::kAuto;
  EXPECT_EQ(make_routed_plan(config, 1, kOneNode).said, "");
  config.device = DeviceKind::kCpu;
  expect_choice(config, kExact);
  EXPECT_EQ(make_routed_plan(config, 2, kOneNode).said, "");
}

}  // namespace
}  // namespace dlrm::plan_test
