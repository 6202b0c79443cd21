// Times of the operations of a recorded step.
#include "bench/recorded_step.h"

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "../plan/plan_fixtures.h"

namespace dlrm::bench {
namespace {

using namespace plan_test;

constexpr StepPart kOfARank[] = {
    StepPart::kLookup,          StepPart::kReceivedVectors,  StepPart::kSentGradients,
    StepPart::kForwardProducts, StepPart::kInputGradients,   StepPart::kWeightGradients,
    StepPart::kInteractForward, StepPart::kInteractBackward, StepPart::kSort,
    StepPart::kDenseUpdate,     StepPart::kSparseUpdate};

class RecordedStep : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  /// The seconds of each part of one rank's step, which follow each other, by their numbers. Only
  /// the rate `key` takes time.
  std::map<StepPart, double> seconds_of(const std::string& key, double rate) {
    nlohmann::json machine = {{"device", "cuda"}, {"ranks_per_node", 1}};
    for (const char* name :
         {"memory_bytes_per_second", "local_bytes_per_second", "network_bytes_per_second",
          "fp32_products_per_second", "bf16_products_per_second"}) {
      machine[name] = 1e18;
    }
    for (const char* name :
         {"local_exchange_seconds", "network_exchange_seconds", "launch_seconds"}) {
      machine[name] = 1e-18;
    }
    machine[key] = rate;
    std::ofstream(path_) << machine;
    RunConfig config =
        config_of({table("a", 1000, 16, {3}), table("b", 50, 16)}, 64, Strategy::kTable);
    config.model.interaction = DotConfig();
    config.sharding.machine = path_;
    config.device = DeviceKind::kCuda;
    const PlanOptions options{0, 1, 0, false};
    std::vector<StepOperation> operations;
    for (const StepPart part : kOfARank) {
      operations.push_back({part, 0, 0, 1, 0, {}});
      if (operations.size() > 1) {
        operations.back().needs = {static_cast<int>(operations.size()) - 2};
      }
    }
    const auto times = time_operations(config, make_plan(config, 1, options), options, operations,
                                       /*exchanges=*/true);
    std::map<StepPart, double> seconds;
    for (size_t i = 0; i < times.size(); ++i) {
      seconds[operations[i].part] = times[i].end - times[i].begin;
    }
    return seconds;
  }

  const std::string path_ = ::testing::TempDir() + "/recorded_machine.json";
};

TEST_F(RecordedStep, ProductsAreThoseOfEachLayer) {
  auto seconds = seconds_of("fp32_products_per_second", 1);
  // 13-64-16, three vectors of 16, 19-64-1: the gradient of the features is not computed.
  const double features = 13 * 64, layers = features + 64 * 16 + 19 * 64 + 64;
  for (auto& [part, took] : seconds) took /= 2 * 64;  // two operations for each of the samples
  EXPECT_NEAR(seconds[StepPart::kForwardProducts], layers, 1e-6 * layers);
  EXPECT_NEAR(seconds[StepPart::kWeightGradients], layers, 1e-6 * layers);
  EXPECT_NEAR(seconds[StepPart::kInputGradients], layers - features, 1e-6 * layers);
  const double dot = 3 * 3 * 16;
  EXPECT_NEAR(seconds[StepPart::kInteractForward], dot, 1e-6 * dot);
  EXPECT_NEAR(seconds[StepPart::kInteractBackward], 2 * dot, 1e-6 * dot);
  for (const StepPart part : {StepPart::kLookup, StepPart::kSort, StepPart::kDenseUpdate,
                              StepPart::kSparseUpdate, StepPart::kReceivedVectors}) {
    EXPECT_LT(seconds[part], 1e-6) << static_cast<int>(part);
  }
}

}  // namespace
}  // namespace dlrm::bench
