// What dlrm-bench predicts is of the plan, and the routing of ids, that a run would have.
#include <filesystem>
#include <fstream>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "dlrm/plan/routed_plan.h"

#include "bench/published.h"
#include "bench/simulate.h"
#if defined(DLRM_SIMT)
#include "bench/timeline.h"
#endif

namespace dlrm::bench {
namespace {

/// Three tables on two GPUs. One is cut by rows if hosts route, and by columns if GPUs exchange
/// ids. The parameter is the seconds of a core for an id.
class PredictedPlans : public testing::TestWithParam<double> {
 protected:
  PredictedPlans() {
    std::ofstream(machine_) << fmt::format(R"({{
      "device": "cuda", "ranks_per_node": 2, "processors_per_node": 2,
      "memory_bytes_per_second": 1e12, "local_bytes_per_second": 1e11,
      "network_bytes_per_second": 1e10, "fp32_products_per_second": 1e13,
      "route_id_seconds": {}}})",
                                           GetParam());
    std::ofstream(file_) << fmt::format(R"(
model:
  dense_features: 1
  embedding_dim: 64
  bottom_mlp: [32, 64]
  top_mlp: [32, 1]
  interaction: concat
  tables: [{{name: t, count: 3, rows: 30000}}]
data: {{source: synthetic}}
train: {{global_batch_size: 4096, threads: 1, sparse_optimizer: {{type: sgd}}}}
device: cuda
sharding: {{machine: "{}"}}
)",
                                        machine_);
    config_ = load_config(file_);
    options_.ranks_per_node = 2;
    options_.gpu = true;
    routed_ = make_routed_plan(config_, 2, options_);
    config_.routing.mode = routed_.mode;
    given_ = load_config(file_);
  }
  ~PredictedPlans() override {
    std::filesystem::remove(machine_);
    std::filesystem::remove(file_);
  }
  double step() const { return simulate_step(config_, routed_.plan, options_).step; }

  const std::string machine_ = testing::TempDir() + "/machine_of_predicted_plans.json";
  const std::string file_ = testing::TempDir() + "/predicted_plans.yaml";
  PlanOptions options_;
  RunConfig config_;  ///< with the mode that is chosen
  RunConfig given_;
  RoutedPlan routed_;
};
INSTANTIATE_TEST_SUITE_P(Hosts, PredictedPlans, testing::Values(1e-6, 1e-12),
                         [](const auto& info) { return info.param > 1e-9 ? "Slow" : "Fast"; });

TEST_P(PredictedPlans, DependOnTheHosts) {
  EXPECT_EQ(routed_.mode, GetParam() > 1e-9 ? RoutingMode::kFixed : RoutingMode::kExact);
}

TEST_P(PredictedPlans, AreThoseOfSimulatedSteps) {
  SimulateOptions options;
  options.config = given_;
  options.ranks = {2};
  const SimulateResult result = run_simulate(options);
  EXPECT_EQ(result.points[0].prediction.step, step());
}

TEST_P(PredictedPlans, AreThoseComparedWithPublishedTimes) {
  PublishedTimes times;
  times.largest_slice = 1e12;
  times.points.push_back({file_, 2, 1.0, false});
  EXPECT_EQ(compare_published(times, machine_).points[0].ours, 1e3 * step());
}

#if defined(DLRM_SIMT)
TEST_P(PredictedPlans, AreThoseOfTimelines) {
  TimelineOptions options;
  options.config = given_;
  options.ranks = 2;
  options.samples = 4;
  options.rows = 64;
  const TimelineResult result = run_timeline(options);
  EXPECT_EQ(result.plan, routed_.plan);
}
#endif

}  // namespace
}  // namespace dlrm::bench
