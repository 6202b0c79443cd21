#include "dlrm/comm/launcher.h"

#include <cstdlib>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace dlrm::comm {
namespace {

/// The environment of a process without a launcher, with these variables added.
class Environment {
 public:
  explicit Environment(const std::vector<std::pair<const char*, const char*>>& variables) {
    clear();
    for (const auto& [name, value] : variables) setenv(name, value, 1);
  }
  ~Environment() { clear(); }

 private:
  static void clear() {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK",
                             "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}) {
      unsetenv(name);
    }
  }
};

TEST(DetectLaunch, APlainProcessIsNotParallel) {
  const Environment environment({});
  EXPECT_FALSE(detect_launch().parallel);
}

TEST(DetectLaunch, MpirunIsParallelFromTwoRanksOn) {
  const Environment two({{"OMPI_COMM_WORLD_SIZE", "2"}, {"PMIX_RANK", "1"}});
  EXPECT_TRUE(detect_launch().parallel);
  const Environment one({{"OMPI_COMM_WORLD_SIZE", "1"}, {"PMIX_RANK", "0"}});
  EXPECT_FALSE(detect_launch().parallel);
}

TEST(DetectLaunch, AnotherLaunchersSizeDecides) {
  const Environment one({{"PMI_SIZE", "1"}, {"PMI_RANK", "0"}});
  EXPECT_FALSE(detect_launch().parallel);
  const Environment two({{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}});
  EXPECT_TRUE(detect_launch().parallel);
}

TEST(DetectLaunch, ARankWithoutASizeIsParallel) {
  for (const char* name : {"PMI_RANK", "PMIX_RANK"}) {
    const std::vector<std::pair<const char*, const char*>> variables{{name, "0"}};
    const Environment environment(variables);
    EXPECT_TRUE(detect_launch().parallel) << name;
  }
  const Environment step(
      {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}});
  EXPECT_FALSE(detect_launch().parallel);
}

TEST(DetectLaunch, TheFirstSizeThatIsSetDecides) {
  struct Case {
    std::vector<std::pair<const char*, const char*>> variables;
    bool parallel;
    int tasks;
  };
  const Case cases[] = {
      {{{"OMPI_COMM_WORLD_SIZE", "1"}, {"PMI_SIZE", "2"}, {"PMI_RANK", "1"}}, false, 0},
      {{{"OMPI_COMM_WORLD_SIZE", "2"}, {"PMI_SIZE", "1"}}, true, 0},
      {{{"OMPI_COMM_WORLD_SIZE", "1"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_PROCID", "0"},
        {"SLURM_STEP_NUM_TASKS", "4"}},
       false,
       4},
      {{{"PMI_SIZE", "1"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_PROCID", "0"},
        {"SLURM_STEP_NUM_TASKS", "4"}},
       false,
       4},
      {{{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}}, false, 0},
      {{{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}}, false, 0},
  };
  for (const Case& c : cases) {
    const Environment environment(c.variables);
    EXPECT_EQ(detect_launch().parallel, c.parallel) << &c - cases;
    EXPECT_EQ(detect_launch().srun_tasks, c.tasks) << &c - cases;
  }
}

TEST(DetectLaunch, ABatchScriptIsNotParallel) {
  const Environment environment({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "8"}});
  EXPECT_FALSE(detect_launch().parallel);
}

TEST(DetectLaunch, SrunIsParallelAndTellsItsTasks) {
  const Environment environment(
      {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "4"}});
  EXPECT_TRUE(detect_launch().parallel);
  EXPECT_EQ(detect_launch().srun_tasks, 4);
}

TEST(DetectLaunch, TasksOfSrunFindOneAnotherThroughPmi) {
  const std::vector<std::pair<const char*, const char*>> step{
      {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}};
  {
    const Environment environment(step);
    EXPECT_TRUE(detect_launch().lone_tasks);
  }
  for (const char* name : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE"}) {
    auto variables = step;
    variables.emplace_back(name, "2");
    const Environment environment(variables);
    EXPECT_FALSE(detect_launch().lone_tasks) << name;
  }
  const Environment one(
      {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}});
  EXPECT_FALSE(detect_launch().lone_tasks);
}

}  // namespace
}  // namespace dlrm::comm
