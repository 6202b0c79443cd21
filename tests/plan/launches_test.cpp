// What plans of the configs of this repository say about the launches of a step on GPUs.
#include "dlrm/plan/launches.h"

#include "dlrm/plan/id_exchange.h"

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

constexpr std::array kStrategies = {Strategy::kAuto, Strategy::kTable, Strategy::kRow,
                                    Strategy::kColumn, Strategy::kGrid};

TEST(LaunchesOfConfigs, StepsAreGraphsUnlessHostsFindAllIds) {
  const std::vector<RunConfig> configs = all_configs();
  EXPECT_GE(configs.size(), 15u);
  size_t next = 0;
  for (RunConfig config : configs) {
    for (const RoutingMode mode : {RoutingMode::kExact, RoutingMode::kFixed}) {
      config.routing.mode = mode;
      const Strategy some = kStrategies[next++ % kStrategies.size()];
      for (const Strategy strategy : kStrategies) {
        if (!tests_all() && strategy != some) continue;
        config.sharding.strategy = strategy;
        const Plan plan = make_plan(config, 8);
        const bool varies = mode == RoutingMode::kFixed && !devices_exchange_ids(config, plan);
        EXPECT_EQ(launched(config, plan),
                  varies ? "steps are launched as graphs unless the numbers of ids vary (fixed "
                           "routing on the hosts)"
                         : "steps are launched as graphs");
      }
    }
  }
}

/// Those of data-parallel tables come to at most 20.
TEST(LaunchesOfConfigs, OfAutoAreHardlyMoreThanOfAnyStrategy) {
  for (RunConfig config : all_configs()) {
    for (const int ranks : {1, 8, 64}) {
      if (!tests_all() && (ranks == 64 || config.model.tables.size() > 200)) continue;
      config.sharding.strategy = Strategy::kAuto;
      const Plan plan = make_plan(config, ranks);
      int fewest = most_launches(config, plan);
      for (const Strategy strategy : kStrategies) {
        config.sharding.strategy = strategy;
        fewest = std::min(fewest, most_launches(config, make_plan(config, ranks)));
      }
      EXPECT_LE(most_launches(config, plan), fewest + 20)
          << config.model.tables.size() << " tables on " << ranks << " ranks";
    }
  }
}

/// With thousands of shards of cut rows, whose bags have several ids.
TEST(LaunchesOfConfigs, DoNotGrowWithRanks) {
  for (const char* name : {"synthetic/small", "mlperf_dcnv2"}) {
    RunConfig config = load_config(std::string(DLRM_SOURCE "/configs/") + name + ".yaml");
    config.device = DeviceKind::kCuda;
    config.comm = CommKind::kNccl;
    const int few = most_launches(config, make_plan(config, 64));
    EXPECT_LE(most_launches(config, make_plan(config, 4096)), few + 20) << name;
  }
}

}  // namespace
}  // namespace dlrm::plan_test
