// What plans of the configs of this repository say about the launches of a step on GPUs.
#include "dlrm/plan/launches.h"

#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

std::vector<RunConfig> all_configs() {
  std::vector<RunConfig> configs;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(DLRM_SOURCE "/configs")) {
    if (entry.path().extension() != ".yaml") continue;
    configs.push_back(load_config(entry.path().string()));
    configs.back().device = DeviceKind::kCuda;
    configs.back().comm = CommKind::kNccl;
  }
  return configs;
}

/// The line that says whether steps are launched as graphs.
std::string launched(const RunConfig& config, const Plan& plan) {
  char* data = nullptr;
  size_t size = 0;
  std::FILE* out = open_memstream(&data, &size);
  print_plan_report(out, config, plan, {});
  std::fclose(out);
  const std::string text(data, size);
  std::free(data);
  const size_t line = text.find("steps are ");
  return line == std::string::npos ? "" : text.substr(line, text.find('\n', line) - line);
}

int most_launches(const RunConfig& config, const Plan& plan) {
  int most = 0;
  for (const StepLaunches& rank : step_launches(config, plan)) {
    most = std::max(most, rank.launches());
  }
  return most;
}

constexpr std::array kStrategies = {Strategy::kTable, Strategy::kRow, Strategy::kColumn,
                                    Strategy::kGrid};

TEST(LaunchesOfConfigs, WhetherStepsAreGraphsDoesNotDependOnThePlan) {
  const std::vector<RunConfig> configs = all_configs();
  EXPECT_GE(configs.size(), 15u);
  for (RunConfig config : configs) {
    for (const RoutingMode mode : {RoutingMode::kExact, RoutingMode::kFixed}) {
      config.routing.mode = mode;
      config.sharding.strategy = Strategy::kAuto;
      const std::string line = launched(config, make_plan(config, 8));
      EXPECT_EQ(line, mode == RoutingMode::kExact
                          ? "steps are launched as graphs"
                          : "steps are launched as graphs unless bags vary in length (fixed "
                            "routing)");
      for (const Strategy strategy : kStrategies) {
        config.sharding.strategy = strategy;
        EXPECT_EQ(launched(config, make_plan(config, 8)), line);
      }
    }
  }
}

/// The shards of a table that is cut by rows and has bags of several ids, at most.
int most_row_shards(const ModelConfig& model, const Plan& plan) {
  std::vector<int> shards(model.tables.size());
  int most = 0;
  for (const Shard& shard : plan.shards) {
    const TableConfig& table = model.tables[static_cast<size_t>(shard.table)];
    const bool long_bags =
        std::any_of(table.features.begin(), table.features.end(),
                    [](const FeatureConfig& feature) { return feature.hotness > 1; });
    if (!long_bags || shard.rows.size() == table.rows) continue;
    most = std::max(most, ++shards[static_cast<size_t>(shard.table)]);
  }
  return most;
}

/// Those of data-parallel tables come to at most 20.
TEST(LaunchesOfConfigs, OfAutoAreHardlyMoreThanOfAnyStrategyButForRowShards) {
  for (RunConfig config : all_configs()) {
    for (const int ranks : {1, 8, 64}) {
      config.sharding.strategy = Strategy::kAuto;
      const Plan plan = make_plan(config, ranks);
      int fewest = most_launches(config, plan);
      for (const Strategy strategy : kStrategies) {
        config.sharding.strategy = strategy;
        fewest = std::min(fewest, most_launches(config, make_plan(config, ranks)));
      }
      EXPECT_LE(most_launches(config, plan), fewest + 20 + most_row_shards(config.model, plan))
          << config.model.tables.size() << " tables on " << ranks << " ranks";
    }
  }
}

}  // namespace
}  // namespace dlrm::plan_test
