// The goal for plans of configs/: the heaviest rank costs at most 1.15 times the lower bound, and
// the fullest one has at most 1.15 times the least memory of plans that cost no more.
// docs/benchmarks/scaling.md has all.
#include <set>

#include "dlrm/plan/machine.h"

#include "plan/bound.h"
#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

const std::string kConfigs = DLRM_SOURCE "/configs/";
constexpr double kGoal = 1.155;  // 1.15 as it is printed

/// Names relative to configs/, without the ending.
std::vector<std::string> configs() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kConfigs)) {
    if (entry.path().extension() != ".yaml") continue;
    names.push_back(entry.path().lexically_relative(kConfigs).replace_extension().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

RunConfig config_named(const std::string& name, const std::vector<std::string>& settings = {}) {
  return load_config(kConfigs + name + ".yaml", settings);
}

/// In these bytes may be more even at the same cost. All tables of the first take less than a MiB.
const std::set<std::string> kLessEven = {
    "bench/gpu/parity 64", "bench/gpu/parity 512",  "bench/gpu/parity epyc",   "bench/kaggle epyc",
    "criteo_kaggle epyc",  "mlperf_dcnv2 a100_dgx", "synthetic/small a100_dgx"};

TEST(EvenPlans, OfConfigsReachTheGoalOnUpTo512Ranks) {
  ASSERT_GE(configs().size(), 23u);
  for (const std::string& name : configs()) {
    const RunConfig config = config_named(name);
    for (const int ranks : {8, 64, 512}) {
      const std::string which = fmt::format("{} {}", name, ranks);
      const PlanRatios ratios = plan_ratios(config, make_plan(config, ranks), {});
      EXPECT_LE(ratios.cost, kGoal) << which;
      EXPECT_LE(ratios.memory, kLessEven.contains(which) ? 1.6 : kGoal) << which;
    }
  }
}

/// Models of more tables take long.
TEST(EvenPlans, WithMachineFilesReachTheGoalOnEightNodes) {
  for (const std::string& name : configs()) {
    for (const char* machine : {"epyc", "a100_dgx"}) {
      const std::string file = fmt::format("{}machines/{}.json", kConfigs, machine);
      const RunConfig given = config_named(name, {"sharding.machine=" + file});
      if (given.model.tables.size() > 350) continue;
      const MachineSpeed speed = read_machine(file).speed;
      const PlanOptions options{0, speed.ranks_per_node, 0, speed.gpu};
      const RunConfig config = with_known_device(given, options);
      const std::string which = fmt::format("{} {}", name, machine);
      const PlanRatios ratios = plan_ratios(config, make_plan(config, 64, options), options);
      EXPECT_LE(ratios.cost, kGoal) << which;
      if (!kLessEven.contains(which)) EXPECT_LE(ratios.memory, kGoal) << which;
    }
  }
}

}  // namespace
}  // namespace dlrm::plan_test
