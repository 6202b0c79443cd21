// Plans of configs/: the heaviest rank costs at most a quarter more than the lower bound, and the
// fullest one has at most a quarter more than the mean. docs/benchmarks/scaling.md has all.
#include "dlrm/plan/machine.h"

#include "plan/bound.h"
#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

const std::string kConfigs = DLRM_SOURCE "/configs/";
constexpr double kGoal = 1.255;  // 1.25 as it is printed

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

/// A rank of these models has time for a few parts, and not all ranks have one of a large table.
double most_memory(const std::string& name) {
  const bool has_few_parts = name == "bench/gpu/parity" || name == "single/cpu" ||
                             name.find("kaggle") != std::string::npos;
  return has_few_parts ? 2.3 : 1.3;
}

TEST(EvenPlans, OfConfigsReachTheGoalOnUpTo512Ranks) {
  ASSERT_GE(configs().size(), 23u);
  for (const std::string& name : configs()) {
    const RunConfig config = config_named(name);
    for (const int ranks : {8, 64, 512}) {
      if (!tests_all() && ranks * config.model.tables.size() > 8000) continue;
      const std::string which = fmt::format("{} {}", name, ranks);
      const PlanRatios ratios = plan_ratios(config, make_plan(config, ranks), {});
      EXPECT_LE(ratios.cost, kGoal) << which;
      EXPECT_LE(ratios.memory, most_memory(name)) << which;
    }
  }
}

/// A plan with a machine file.
struct Made {
  RunConfig config;
  PlanOptions options;
  Plan plan;
};

Made made_for(const std::string& name, const std::string& machine, int ranks) {
  const std::string file = fmt::format("{}machines/{}.json", kConfigs, machine);
  const MachineSpeed speed = read_machine(file).speed;
  Made made;
  made.options = {0, speed.ranks_per_node, 0, speed.gpu};
  made.config = with_known_device(config_named(name, {"sharding.machine=" + file}), made.options);
  made.plan = make_plan(made.config, ranks, made.options);
  return made;
}

/// Models of more tables take long.
TEST(EvenPlans, WithMachineFilesReachTheGoalOnEightNodes) {
  for (const std::string& name : configs()) {
    for (const char* machine : {"epyc", "a100_dgx"}) {
      if (config_named(name).model.tables.size() > (tests_all() ? 350u : 60u)) continue;
      const std::string which = fmt::format("{} {}", name, machine);
      const Made made = made_for(name, machine, 64);
      const PlanRatios ratios = plan_ratios(made.config, made.plan, made.options);
      EXPECT_LE(ratios.cost, kGoal) << which;
      EXPECT_LE(ratios.memory, most_memory(name)) << which;
    }
  }
}

}  // namespace
}  // namespace dlrm::plan_test
