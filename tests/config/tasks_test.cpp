// model.tasks: several labels.
#include "sample_config.h"

namespace dlrm {
namespace {

const std::string kTwo = "model.tasks=[{name: click}, {name: buy, weight: 0.5, tower: [64, 1]}]";

TEST(Tasks, AreOneLabelAndTheTopMlpByDefault) {
  const RunConfig config = small_config();
  EXPECT_EQ(config.model.num_labels(), 1);
  ASSERT_EQ(config.model.towers().size(), 1u);
  EXPECT_EQ(config.model.towers()[0].path, "/mlp/top");
  EXPECT_EQ(config.model.towers()[0].layers, config.model.top_mlp);
  EXPECT_EQ(config, small_config({"model.tasks=[]"}));
  EXPECT_EQ(to_yaml(config).find("tasks"), std::string::npos);
}

TEST(Tasks, HaveATowerEachLikeTheTopMlpByDefault) {
  const ModelConfig model = small_config({kTwo}).model;
  EXPECT_EQ(model.num_labels(), 2);
  EXPECT_EQ(model.task_names(), (std::vector<std::string>{"click", "buy"}));
  const std::vector<Tower> towers = model.towers();
  ASSERT_EQ(towers.size(), 2u);
  EXPECT_EQ(towers[0].path, "/tasks/click");
  EXPECT_EQ(towers[0].layers, model.top_mlp);
  EXPECT_EQ(towers[0].weight, 1);
  EXPECT_EQ(towers[1].path, "/tasks/buy");
  EXPECT_EQ(towers[1].layers, (std::vector<int64_t>{64, 1}));
  EXPECT_EQ(towers[1].weight, 0.5);
}

TEST(Tasks, CountTheParametersOfEveryTower) {
  const ModelConfig one = small_config().model, two = small_config({kTwo}).model;
  const int64_t z = one.interaction_width();
  EXPECT_EQ(two.dense_parameters() - one.dense_parameters(), (z + 1) * 64 + 65);
}

TEST(Tasks, CountTheParametersOfExpertsAndGates) {
  const std::string experts = "model.experts={count: 3, layers: [20, 10]}";
  const ModelConfig plain = small_config({kTwo}).model, mixed = small_config({kTwo, experts}).model;
  const int64_t z = plain.interaction_width();
  EXPECT_EQ(mixed.tower_inputs(), 10);
  const int64_t each = (z + 1) * 20 + 21 * 10, gates = 2 * 3 * z;
  const int64_t towers = (10 - z) * (plain.towers()[0].layers[0] + 64);
  EXPECT_EQ(mixed.dense_parameters() - plain.dense_parameters(), 3 * each + gates + towers);
}

TEST(Tasks, ShareExpertsOnlyIfThereAreSeveral) {
  const std::string experts = "model.experts={count: 3, layers: [20]}";
  EXPECT_EQ(error_of(kSmallYaml, {experts}),
            "--set " + experts +
                ": model.experts are shared by several tasks: needs model.tasks, or leave it out");
  EXPECT_EQ(error_of(kSmallYaml, {kTwo, "model.experts={count: 1, layers: [20]}"}),
            "--set model.experts={count: 1, layers: [20]}: model.experts.count is 1: needs 2 or "
            "more, or 0 for none");
  EXPECT_EQ(error_of(kSmallYaml, {kTwo, "model.experts={count: 3}"}),
            "--set model.experts={count: 3}: model.experts has count or layers alone: needs both");
}

TEST(Tasks, AreWrittenAndReadBack) {
  const RunConfig config =
      small_config({kTwo, "eval.task=buy", "model.experts={count: 3, layers: [20, 10]}"});
  EXPECT_EQ(parse_config(to_yaml(config), "written"), config);
}

TEST(Tasks, BlockAResumeIfTheyDiffer) {
  const RunConfig two = small_config({kTwo});
  EXPECT_FALSE(keys_that_block_resume(small_config(), two).empty());
  EXPECT_TRUE(keys_that_block_resume(two, small_config({kTwo, "eval.task=buy"})).empty());
}

TEST(Tasks, ThatMakeNoSenseAreErrorsWithTheirPlace) {
  const auto error_with = [](const std::string& tasks) {
    const std::string text = "model.tasks=" + tasks, error = error_of(kSmallYaml, {text});
    const std::string place = "--set " + text + ": ";
    EXPECT_TRUE(error.starts_with(place)) << error;
    return error.substr(std::min(error.size(), place.size()));
  };
  EXPECT_EQ(error_with("[{name: click}]"),
            "model.tasks is a list: needs a list of 2 to 64 maps, or []");
  EXPECT_EQ(error_with("[{name: a}, {name: b}, {name: a}]"),
            "model.tasks has two tasks named a: needs names that differ");
  EXPECT_EQ(error_with("[{name: a}, {name: b, tower: [4, 2]}]"),
            "the tower of task b ends with 2: needs 1 as its last width, the logit");
  EXPECT_EQ(error_with("[{name: a}, {name: b, weight: 0}]"),
            "model.tasks.1.weight is \"0\": needs a number from 1e-06 to 1000000");
}

TEST(Tasks, NeedDataWithSeveralLabels) {
  const std::string criteo = "data={source: criteo, train: log.txt, shuffle: false}";
  EXPECT_EQ(error_of(kSmallYaml, {criteo}), "");
  EXPECT_EQ(error_of(kSmallYaml, {criteo, kTwo}),
            "--set " + kTwo +
                ": model.tasks has 2 tasks, and a Criteo log has one label: needs a dataset with "
                "several (docs/file-formats.md), data.source hdf5");
}

TEST(Tasks, DecideByTheNameOfOneOfThem) {
  EXPECT_EQ(error_of(kSmallYaml, {kTwo, "eval.task=bu"}),
            "--set eval.task=bu: eval.task is bu, which is no task; the nearest is buy");
  EXPECT_EQ(
      error_of(kSmallYaml, {"eval.task=buy"}),
      "--set eval.task=buy: eval.task is buy, and the model has one label: needs model.tasks");
}

TEST(Tasks, DropOutputsIfAnyTowerHasHiddenLayers) {
  const std::string flat = "model.tasks=[{name: a, tower: [1]}, {name: b, tower: [1]}]";
  EXPECT_EQ(error_of(kSmallYaml, {kTwo, "model.top_mlp=[1]", "model.dropout.top=0.5"}), "");
  EXPECT_EQ(error_of(kSmallYaml, {flat, "model.dropout.top=0.5"}),
            "--set model.dropout.top=0.5: model.dropout.top is for hidden layers, and each tower "
            "has none: leave it out");
}

}  // namespace
}  // namespace dlrm
