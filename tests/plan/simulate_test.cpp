// Predicted step times: what a step consists of, and how it changes with the machine.
#include "dlrm/plan/simulate.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include <nlohmann/json.hpp>

#include "dlrm/plan/traffic.h"

#include "plan/simulate/step_work.h"
#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

using nlohmann::json;

/// Rates at which every part of a step of the configs here takes a visible time.
json slow_machine() {
  return {{"device", "cuda"},
          {"ranks_per_node", 2},
          {"memory_bytes_per_second", 1e9},
          {"local_bytes_per_second", 2e8},
          {"network_bytes_per_second", 1e8},
          {"fp32_products_per_second", 1e9},
          {"bf16_products_per_second", 2e9},
          {"local_exchange_seconds", 1e-5},
          {"network_exchange_seconds", 3e-5},
          {"launch_seconds", 1e-6},
          {"shard_seconds", 2e-6}};
}

class Simulation : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  StepPrediction simulate(RunConfig config, int ranks, const json& machine,
                          int ranks_per_node = 2) {
    std::ofstream(path_) << machine;
    config.sharding.machine = path_;
    config.device = machine.value("device", "cpu") == "cuda" ? DeviceKind::kCuda : DeviceKind::kCpu;
    const PlanOptions options{0, ranks_per_node, 0, false};
    return simulate_step(config, make_plan(config, ranks, options), options);
  }

  const std::string path_ = ::testing::TempDir() + "/simulated_machine.json";
};

RunConfig dot_config() {
  RunConfig config =
      config_of({table("a", 1000, 16, {3}), table("b", 50, 16), table("c", 7, 16, {2})}, 64,
                Strategy::kTable);
  config.model.interaction = DotConfig();
  return config;
}

double path_seconds(const StepPrediction& prediction) {
  return std::accumulate(
      prediction.critical_path.begin(), prediction.critical_path.end(), 0.0,
      [](double sum, const StepPrediction::Link& link) { return sum + link.seconds; });
}

const StepPrediction::Stage& stage_of(const StepPrediction& prediction, const std::string& name) {
  return *std::find_if(prediction.stages.begin(), prediction.stages.end(),
                       [&](const StepPrediction::Stage& stage) { return stage.name == name; });
}

TEST_F(Simulation, AStepIsAsLongAsItsLongestChain) {
  for (const int ranks : {1, 2, 4, 7}) {
    const StepPrediction p = simulate(dot_config(), ranks, slow_machine());
    EXPECT_NEAR(path_seconds(p), p.step, 1e-9 * p.step) << ranks << " ranks";
  }
}

TEST_F(Simulation, AChainThatBeganInTheStepBeforeIsCutAtItsEnd) {
  // Many ids, which are exchanged from the loss of a step to the lookups of the next one.
  RunConfig config =
      config_of({table("a", 1000, 1, {500}), table("b", 50, 1, {500})}, 64, Strategy::kTable);
  json machine = slow_machine();
  for (const char* key : {"memory_bytes_per_second", "fp32_products_per_second"})
    machine[key] = 1e12;
  machine["local_bytes_per_second"] = 1e7;
  const StepPrediction p = simulate(config, 2, machine);
  EXPECT_EQ(p.critical_path.front().stage, "exchange of ids");
  EXPECT_NEAR(path_seconds(p), p.step, 1e-9 * p.step);
}

TEST_F(Simulation, OneCpuDoesOneThingAfterAnother) {
  json machine = slow_machine();
  machine["device"] = "cpu";
  const StepPrediction p = simulate(dot_config(), 1, machine);
  double busy = 0;
  for (const StepPrediction::Stage& stage : p.stages) busy += stage.most;
  EXPECT_NEAR(busy, p.step, 1e-9 * p.step);
  EXPECT_EQ(p.exchange, 0);
  EXPECT_EQ(p.exposed, 0);
}

/// A machine of which nothing takes time but what a test adds.
json fast_cpu() {
  json machine = slow_machine();
  machine["device"] = "cpu";
  for (const char* key : {"launch_seconds", "shard_seconds"}) machine.erase(key);
  for (const char* key :
       {"memory_bytes_per_second", "local_bytes_per_second", "fp32_products_per_second"}) {
    machine[key] = 1e18;
  }
  machine["local_exchange_seconds"] = 1e-12;
  return machine;
}

TEST_F(Simulation, AnIdKeepsTheProcessorsBusyInEachPhase) {
  const double ids = 64 * 6;
  for (const char* key :
       {"route_id_seconds", "receive_id_seconds", "lookup_id_seconds", "update_id_seconds"}) {
    json machine = fast_cpu();
    machine[key] = 1e-3;
    EXPECT_NEAR(simulate(dot_config(), 1, machine).step, 1e-3 * ids, 1e-6) << key;
    // With the memory of rows, the longer one counts.
    machine["memory_bytes_per_second"] = 1e8;
    EXPECT_LT(simulate(dot_config(), 1, machine).step, 1e-3 * ids + 0.01) << key;
  }
  // Whole tables on two ranks. Each rank has half of the samples.
  const RunConfig config =
      config_of({table("a", 1000, 16, {4}), table("b", 50, 16)}, 64, Strategy::kTable);
  json machine = fast_cpu();
  machine["update_id_seconds"] = 1e-3;
  EXPECT_NEAR(simulate(config, 2, machine).step, 1e-3 * 64 * 4, 1e-6);
  machine = fast_cpu();
  machine["route_id_seconds"] = 1e-3;
  EXPECT_NEAR(simulate(config, 2, machine).step, 1e-3 * 32 * 5, 1e-6);
}

TEST_F(Simulation, SmallProductsHaveASmallerRate) {
  json machine = fast_cpu();
  machine["fp32_products_per_second"] = 1e6;
  RunConfig config = dot_config();
  const double before = simulate(config, 1, machine).step;
  machine["half_rate_size"] = 16;
  // 13-64-16 without the gradient of the features, and 22-64-1, by the smaller size of each weight.
  const double more = 2.0 * 13 * 64 * 16 / 13 + 3.0 * 64 * 16 * 16 / 16 + 3.0 * 22 * 64 * 16 / 22 +
                      3.0 * 64 * 16 / 1;
  EXPECT_NEAR(simulate(config, 1, machine).step - before, 64 * 2 * more / 1e6, 1e-6);
}

// ---- Processors of a node

/// Two ranks of two threads each on four processors. Only products take time.
json four_processors() {
  json machine = fast_cpu();
  machine["fp32_products_per_second"] = 1e6;
  machine["processors_per_node"] = 4;
  return machine;
}

TEST_F(Simulation, ThreadsDivideTheWorkOfARank) {
  RunConfig config = dot_config();
  const double two = simulate(config, 2, four_processors()).step;
  EXPECT_NEAR(simulate(config, 1, four_processors()).step, two, 1e-9);  // on all processors
  config.train.threads = 1;
  EXPECT_NEAR(simulate(config, 2, four_processors()).step, 2 * two, 1e-9);
  EXPECT_NEAR(simulate(config, 1, four_processors()).step, 4 * two, 1e-9);
  json machine = four_processors();
  machine["threads_per_rank"] = 1;  // while the rates were measured
  EXPECT_NEAR(simulate(config, 2, machine).step, two, 1e-9);
}

TEST_F(Simulation, RanksBeyondTheProcessorsTakeTurns) {
  const double two = simulate(dot_config(), 2, four_processors()).step;
  for (const int ranks : {4, 8, 16}) {
    EXPECT_NEAR(simulate(dot_config(), ranks, four_processors(), ranks).step, two, 1e-9) << ranks;
  }
  // On two nodes there are as many processors as ranks.
  EXPECT_NEAR(simulate(dot_config(), 8, four_processors(), 4).step, two / 2, 1e-3 * two);
  RunConfig config = dot_config();
  config.train.threads = 3;  // six on four
  EXPECT_NEAR(simulate(config, 2, four_processors()).step, two, 1e-9);
}

TEST_F(Simulation, AProcessorDoesNothingElseWhileItReadsMemoryOrCopies) {
  json machine = fast_cpu();
  machine["processors_per_node"] = 1;
  machine["memory_bytes_per_second"] = 1e6;
  const double one = simulate(dot_config(), 1, machine, 1).step;
  machine["ranks_per_node"] = 1;
  machine["local_bytes_per_second"] = 1e3;
  const StepPrediction two = simulate(dot_config(), 2, machine, 2);
  const double copied = two.local_bytes / 1e3;
  EXPECT_GT(copied, 1);
  EXPECT_GT(two.step, 1.9 * copied + 0.9 * one);  // by one rank after the other
  machine["processors_per_node"] = 2;
  EXPECT_LT(simulate(dot_config(), 2, machine, 2).step, 1.1 * copied + one);
}

TEST_F(Simulation, ReadersMakeSamplesBesideTheStep) {
  RunConfig config = dot_config();
  config.data.source = DataKind::kSynthetic;
  config.train.threads = 1;
  const double ids = 64 * 6;
  json machine = four_processors();
  const double alone = simulate(config, 1, machine).step;
  machine["draw_id_seconds"] = 1e-4 * alone;
  const auto with = [&](int readers, int processors) {
    config.data.workers = readers;
    json found = machine;
    found["processors_per_node"] = processors;
    found["threads_per_rank"] = 2;
    return simulate(config, 1, found).step;
  };
  EXPECT_NEAR(with(0, 4), alone * (1 + 1e-4 * ids), 1e-9);
  EXPECT_NEAR(with(1, 4), alone, 1e-9);
  EXPECT_NEAR(with(2, 4), alone, 1e-9);
  machine["draw_id_seconds"] = 2 * alone / ids;  // longer than a step
  EXPECT_NEAR(with(1, 4), 2 * alone, 1e-9);
  EXPECT_NEAR(with(2, 4), alone, 1e-9);
  EXPECT_NEAR(with(3, 4), alone, 1e-9);
  config.data.source = DataKind::kReplay;
  EXPECT_NEAR(with(1, 4), alone, 1e-9);
}

TEST_F(Simulation, FasterMachinesAreNotSlower) {
  for (const char* device : {"cpu", "cuda"}) {
    for (const int ranks : {1, 2, 6}) {
      json rates = slow_machine();
      for (const char* id : {"route", "receive", "lookup", "update"}) {
        rates[std::string(id) + "_id_seconds"] = 1e-6;
      }
      rates["half_rate_size"] = 30;
      rates["draw_id_seconds"] = 1e-6;
      json machine = rates;
      machine["device"] = device;
      const double before = simulate(dot_config(), ranks, machine).step;
      for (const auto& [key, value] : rates.items()) {
        if (!value.is_number() || key == "ranks_per_node") continue;
        const bool is_rate = key.find("per_second") != std::string::npos;
        json faster = machine;
        faster[key] = value.get<double>() * (is_rate ? 3 : 0.3);
        EXPECT_LE(simulate(dot_config(), ranks, faster).step, before * (1 + 1e-12))
            << key << " of " << ranks << " ranks with " << device;
      }
    }
  }
}

TEST_F(Simulation, MoreRanksThanANodeUseTheNetwork) {
  json machine = slow_machine();
  machine["network_bytes_per_second"] = 1e-3;
  EXPECT_LT(simulate(dot_config(), 2, machine).step, 1);
  EXPECT_GT(simulate(dot_config(), 3, machine).step, 1000);
}

TEST_F(Simulation, SlowLayersHideAllButTheLastSumOfGradients) {
  json machine = slow_machine();
  machine["fp32_products_per_second"] = 1e6;
  for (const int ranks : {2, 4}) {  // on one node and on two
    const StepPrediction p = simulate(dot_config(), ranks, machine);
    EXPECT_GT(stage_of(p, "exchange of vectors").most, 1e-5);
    EXPECT_NEAR(p.exposed, stage_of(p, "sum of dense gradients").most, 1e-9) << ranks << " ranks";
    EXPECT_NEAR(p.hidden() + p.exposed, p.exchange, 1e-12);
  }
}

TEST_F(Simulation, RoutingAheadHidesTheExchangeOfIdsBetweenNodes) {
  json machine = slow_machine();
  machine["device"] = "cpu";
  machine["network_exchange_seconds"] = 1e-3;
  RunConfig config = dot_config();
  const double ahead = simulate(config, 4, machine).step;
  config.routing.depth = 0;
  EXPECT_GT(simulate(config, 4, machine).step, ahead + 0.9e-3);
}

TEST_F(Simulation, CpusHideNoExchangeWithinANode) {
  json machine = slow_machine();
  machine["device"] = "cpu";
  machine["local_exchange_seconds"] = 1e-12;
  machine["fp32_products_per_second"] = 1e6;
  const StepPrediction p = simulate(dot_config(), 2, machine);
  EXPECT_GT(p.exchange, 1e-4);
  EXPECT_NEAR(p.exposed, p.exchange, 1e-6 * p.exchange);
}

TEST_F(Simulation, NarrowWireMakesAStepShorter) {
  RunConfig config = dot_config();
  const double wide = simulate(config, 2, slow_machine()).step;
  config.train.wire = {DType::kBFloat16, DType::kBFloat16, DType::kBFloat16};
  EXPECT_LT(simulate(config, 2, slow_machine()).step, wide);
}

TEST_F(Simulation, BytesAreCountedByLevel) {
  RunConfig config = dot_config();
  config.model.bottom_mlp = {16};
  config.model.top_mlp = {1};
  const StepPrediction p = simulate(config, 4, slow_machine());
  const double dense = 4.0 * (13 * 16 + 16 + 22 + 1);  // summed by two nodes of two ranks
  const double vectors = 64 * 0.75 * 4 * 16;  // each rank has at most one table of one feature
  EXPECT_GT(p.local_bytes, dense + 2 * vectors / 3);
  EXPECT_LT(p.local_bytes, dense + 2 * vectors / 3 + 2000);  // and ids
  EXPECT_GT(p.network_bytes, dense + 2 * 2 * vectors * 2 / 3);
  EXPECT_LT(p.network_bytes, dense + 2 * 2 * vectors * 2 / 3 + 4000);
  EXPECT_EQ(simulate(config, 2, slow_machine()).network_bytes, 0);
}

TEST_F(Simulation, AMachineFileWithoutProductsIsAUsageError) {
  json machine = slow_machine();
  machine.erase("bf16_products_per_second");
  EXPECT_NO_THROW(simulate(dot_config(), 1, machine));
  RunConfig config = dot_config();
  config.train.precision = Precision::kBf16;
  EXPECT_THAT(usage_error_of([&] { simulate(config, 1, machine); }),
              ::testing::HasSubstr("bf16_products_per_second: missing"));
}

// ---- The work of a step

TEST(StepWork, AnAllToAllCountsTheBusiestRankAndNode) {
  // Ranks 0 and 1 share a node. A third of a rank's bytes goes to the rank beside it.
  const ExchangeWork work = all_to_all({30, 60, 90, 3}, 2);
  EXPECT_DOUBLE_EQ(work.local_bytes, 30);
  EXPECT_DOUBLE_EQ(work.network_bytes, (90 + 3) * 2.0 / 3);
  EXPECT_EQ(all_to_all({30, 60}, 2).network_bytes, 0);
  EXPECT_EQ(all_to_all({30}, 2).local_bytes, 0);
}

TEST(StepWork, AnAllreduceIsSharedByTheRanksOfANode) {
  const ExchangeWork work = all_reduce(120, 12, 4);
  EXPECT_DOUBLE_EQ(work.local_bytes, 2 * 0.75 * 120);
  EXPECT_DOUBLE_EQ(work.network_bytes, 2 * 2.0 / 3 * 120);
  EXPECT_EQ(all_reduce(120, 1, 4).local_bytes, 0);
}

TEST(StepWork, BucketsOfAtLeastAMebibyteAreCutFromTheEnd) {
  RunConfig config = dot_config();
  config.model.bottom_mlp = {1024, 16};        // 14,336 and 16,400 elements
  config.model.top_mlp = {1024, 512, 512, 1};  // 23,552, 524,800, 262,656 and 513
  const DenseWork work = dense_work(config, false);
  EXPECT_EQ(work.bucket_bytes, (std::vector<double>{4.0 * (262656 + 513), 4.0 * 524800,
                                                    4.0 * (23552 + 16400 + 14336)}));
  EXPECT_EQ(work.bucket_products, (std::vector<size_t>{4, 3, 0}));
  EXPECT_EQ(dense_work(config, true).bucket_products, (std::vector<size_t>{4, 0}));
}

TEST(StepWork, TheBusiestRankHasTheRowsThatAreLookedUp) {
  RunConfig config = config_of({table("a", 1000, 16, {3})}, 64, Strategy::kTable);
  const StepWork work = step_work(config, make_plan(config, 2, {}), {});
  EXPECT_EQ(work.ranks[0].shards + work.ranks[1].shards, 1);
  const size_t owner = work.ranks[0].shards > 0 ? 0 : 1;
  EXPECT_EQ(work.ranks[1 - owner].forward_bytes, 0);
  EXPECT_DOUBLE_EQ(work.ranks[owner].forward_bytes, 64 * 3 * 64 + 64 * 64);
  const double unique = expected_unique_rows(1000, 64 * 3);
  EXPECT_NEAR(work.ranks[owner].update_bytes, 64 * 3 * 64 + 2 * unique * (64 + 64) + 64 * 64, 1e-6);
}

}  // namespace
}  // namespace dlrm::plan_test
