// What limits the simulated step of a GPU besides bytes and products: launches, and the host.
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "dlrm/plan/simulate.h"

#include "plan/simulate/step_work.h"
#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

using nlohmann::json;

/// A GPU of which nothing takes time but what a test adds.
json fast_gpu() {
  return {{"device", "cuda"},
          {"ranks_per_node", 2},
          {"memory_bytes_per_second", 1e18},
          {"local_bytes_per_second", 1e18},
          {"network_bytes_per_second", 1e18},
          {"fp32_products_per_second", 1e18},
          {"bf16_products_per_second", 1e18}};
}

class SimulatedGpu : public ::testing::Test {
 protected:
  SimulatedGpu() {
    config_ = config_of({table("a", 1000, 16, {3}), table("b", 50, 16), table("c", 7, 16, {2})}, 64,
                        Strategy::kTable);
    config_.model.interaction = DotConfig();
    config_.device = DeviceKind::kCuda;
    config_.sharding.machine = path_;
  }
  void TearDown() override { std::filesystem::remove(path_); }

  StepPrediction simulate(int ranks, const json& machine) const {
    std::ofstream(path_) << machine;
    return simulate_step(config_, plan(ranks), options_);
  }
  Plan plan(int ranks) const { return make_plan(config_, ranks, options_); }

  RunConfig config_;
  const PlanOptions options_{0, 2, 0, false};
  const std::string path_ = ::testing::TempDir() + "/simulated_gpu.json";
};

double busy_seconds(const StepPrediction& prediction) {
  double sum = 0;
  for (const StepPrediction::Stage& stage : prediction.stages) {
    if (!stage.exchange) sum += stage.most;
  }
  return sum;
}

TEST_F(SimulatedGpu, LaunchesTakeTimeAndSomeAreBesideOthers) {
  json machine = fast_gpu();
  machine["launch_seconds"] = 1;
  const StepPrediction one = simulate(1, machine);
  EXPECT_GT(one.step, 20);
  EXPECT_LT(one.step, busy_seconds(one) - 5);
  config_.sharding.tables = {{"b", Strategy::kDataParallel}};
  const StepPrediction summed = simulate(2, machine);
  EXPECT_GT(busy_seconds(summed), busy_seconds(one));
}

/// In each direction: of one label a sum. Of several, zeros, a sum, and one more for each label.
/// The dense features' weights take two products.
TEST_F(SimulatedGpu, TheLinearPartOfSeveralLabelsTakesMoreLaunches) {
  json machine = fast_gpu();
  machine["launch_seconds"] = 1;
  for (const int labels : {1, 2, 3}) {
    config_.model.tasks.clear();
    for (int t = 0; labels > 1 && t < labels; ++t) {
      config_.model.tasks.push_back({fmt::format("t{}", t), 1, {8, 1}});
    }
    config_.model.linear = false;
    const double plain = busy_seconds(simulate(1, machine));
    config_.model.linear = true;
    const double sums = labels == 1 ? 1 : 2 + labels;
    EXPECT_NEAR(busy_seconds(simulate(1, machine)), plain + 2 * sums + 2, 1e-6) << labels;
  }
}

TEST_F(SimulatedGpu, TheHostRoutesBesideTheDevice) {
  json machine = fast_gpu();
  machine["launch_seconds"] = 1e-3;
  const double device = simulate(2, machine).step;
  const double ids = 32 * 6;
  const auto with = [&](double seconds, int processors) {
    machine["route_id_seconds"] = seconds / ids;
    if (processors > 0) machine["processors_per_node"] = processors;
    return simulate(2, machine).step;
  };
  EXPECT_NEAR(with(0.3 * device, 0), device, 1e-9);
  EXPECT_NEAR(with(3 * device, 0), 3 * device, 1e-9);
  EXPECT_NEAR(with(12 * device, 8), 3 * device, 1e-9);  // four processors for each rank
  EXPECT_NEAR(with(3 * device, 8), device, 1e-9);
  config_.train.threads = 2;
  EXPECT_NEAR(with(12 * device, 8), 6 * device, 1e-9);
}

TEST_F(SimulatedGpu, TheHostRoutesNoIdsThatDevicesExchange) {
  json machine = fast_gpu();
  machine["route_id_seconds"] = 1;
  config_.sharding.tables = {{"c", Strategy::kDataParallel}};
  EXPECT_NEAR(simulate(2, machine).step, 32 * 6, 1e-6);
  config_.routing.mode = RoutingMode::kFixed;
  EXPECT_NEAR(simulate(2, machine).step, 32 * 2, 1e-6);  // the two ids of table c
}

/// Each device reads the ids of its tables twice, those of both ranks.
TEST_F(SimulatedGpu, DevicesThatExchangeIdsReadThemAll) {
  std::ofstream(path_) << fast_gpu();
  config_.sharding.tables = {{"b", Strategy::kDataParallel}, {"c", Strategy::kDataParallel}};
  const Plan whole = plan(2);
  ASSERT_EQ(whole.shards.size(), 1u);
  const auto owner = static_cast<size_t>(whole.shards[0].rank);
  const auto bytes = [&](RoutingMode mode, size_t rank) {
    config_.routing.mode = mode;
    return step_work(config_, whole, options_).ranks[rank].forward_bytes;
  };
  EXPECT_EQ(bytes(RoutingMode::kFixed, owner) - bytes(RoutingMode::kExact, owner), 2 * 64 * 3 * 4);
  EXPECT_EQ(bytes(RoutingMode::kFixed, 1 - owner), bytes(RoutingMode::kExact, 1 - owner));
}

}  // namespace
}  // namespace dlrm::plan_test
