// Ranks that do the same work are simulated once.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "dlrm/plan/simulate.h"

#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

class EqualRanks : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  /// The lookups of ranks that each have a table with so many ids.
  StepPrediction::Stage lookups(const std::vector<int64_t>& ids) {
    std::ofstream(path_) << machine_;
    std::vector<TableConfig> tables;
    Plan plan;
    plan.world = static_cast<int>(ids.size());
    for (int r = 0; r < plan.world; ++r) {
      tables.push_back(table(fmt::format("t{}", r), 1000, 16, {ids[static_cast<size_t>(r)]}));
      plan.shards.push_back({r, {0, 1000}, {0, 16}, r});
    }
    RunConfig config = config_of(std::move(tables), 64);
    config.sharding.machine = path_;
    const StepPrediction step = simulate_step(config, plan, {0, 2, 0, false});
    return *std::find_if(step.stages.begin(), step.stages.end(),
                         [](const auto& stage) { return stage.name == "lookup"; });
  }

  const std::string path_ = ::testing::TempDir() + "/machine_of_equal_ranks.json";
  nlohmann::json machine_ = {{"device", "cpu"},
                             {"ranks_per_node", 2},
                             {"memory_bytes_per_second", 1e6},
                             {"local_bytes_per_second", 1e12},
                             {"network_bytes_per_second", 1e12},
                             {"fp32_products_per_second", 1e12}};
};

TEST_F(EqualRanks, AreNamedByTheFirstOfThem) {
  const double few = lookups({1, 1}).most, many = lookups({9, 9}).most;
  EXPECT_GT(many, 2 * few);
  const StepPrediction::Stage two = lookups({1, 9, 1, 9});
  EXPECT_EQ(two.rank, 1);
  const StepPrediction::Stage one = lookups({1, 1, 1, 9});
  EXPECT_EQ(one.rank, 3);
}

TEST_F(EqualRanks, ShareProcessorsWithTheRanksOfTheirNode) {
  machine_["processors_per_node"] = 1;
  const double few = lookups({1, 1}).most, both = lookups({9, 9}).most;
  const StepPrediction::Stage one = lookups({1, 1, 9, 1, 1, 1});
  EXPECT_EQ(one.rank, 2);
  EXPECT_LT(one.most, 0.9 * both);
  EXPECT_GT(one.most, 1.1 * few);
  // The last node has one rank, which has the processor for itself.
  EXPECT_NE(lookups({1, 1, 1, 1, 1}).rank, 4);
}

}  // namespace
}  // namespace dlrm::plan_test
