#include <algorithm>
#include <fstream>

#include <gmock/gmock.h>

#include "sample_config.h"

namespace dlrm {
namespace {

std::string error_of_file(const std::string& path, const std::vector<std::string>& overrides = {}) {
  return error_of([&] { load_config(path, overrides); });
}

struct Case {
  const char* name;
  const char* override_text;  // set in the small config
  const char* error;          // what follows "--set <override>: "
};

class BadValue : public ::testing::TestWithParam<Case> {};

TEST_P(BadValue, TheErrorNamesTheKeyAndWhatWouldBeRight) {
  const std::string want =
      std::string("--set ") + GetParam().override_text + ": " + GetParam().error;
  EXPECT_EQ(error_of(kSmallYaml, {GetParam().override_text}), want);
}

INSTANTIATE_TEST_SUITE_P(
    Numbers, BadValue,
    ::testing::Values(
        Case{"Word", "train.global_batch_size=abc",
             "train.global_batch_size is \"abc\": needs a whole number from 1 to 2147483647, "
             "or auto"},
        Case{"Fraction", "train.global_batch_size=1.5",
             "train.global_batch_size is \"1.5\": needs a whole number from 1 to 2147483647, "
             "or auto"},
        Case{"Quoted", "train.threads='2'",
             "train.threads is the quoted text \"2\": needs a whole number from 0 to 4096"},
        Case{"ListForAReal", "train.dense_optimizer.lr=[0.1]",
             "train.dense_optimizer.lr is a list: needs a number from 0 to 1000000"},
        Case{"NoRows", "model.tables.C1.rows=",
             "model.tables.0.rows is empty: needs a whole number from 1 to 1099511627776"},
        Case{"NotANumber", "train.dense_optimizer.lr=nan",
             "train.dense_optimizer.lr is \"nan\": needs a number from 0 to 1000000"},
        Case{"Infinity", "train.dense_optimizer.lr=.inf",
             "train.dense_optimizer.lr is \".inf\": needs a number from 0 to 1000000"},
        Case{"NumberInAList", "model.top_mlp=[8, x, 1]",
             "model.top_mlp.1 is \"x\": needs a whole number from 1 to 1048576"}),
    [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Words, BadValue,
    ::testing::Values(
        Case{"Boolean", "data.shuffle=yes", "data.shuffle is \"yes\": needs one of true, false"},
        Case{"Activation", "model.activation=ReLU",
             "model.activation is \"ReLU\": needs one of relu, gelu, silu, sigmoid, tanh"},
        Case{"SparseLamb", "train.sparse_optimizer.type=lamb",
             "train.sparse_optimizer.type is \"lamb\": needs one of sgd, adagrad, rowwise_adagrad, "
             "adam, ftrl"},
        Case{"DenseFtrl", "train.dense_optimizer.type=ftrl",
             "train.dense_optimizer.type is \"ftrl\": needs one of sgd, adagrad, adam, lamb"},
        Case{"BackwardWire", "train.wire.backward=fp16",
             "train.wire.backward is \"fp16\": needs one of fp32, bf16"},
        Case{"TableType", "model.tables.C1.dtype=fp16",
             "model.tables.0.dtype is \"fp16\": needs one of fp32, bf16"},
        Case{"ListForAWord", "comm=[mpi]", "comm is a list: needs one of auto, mpi, nccl, staged"},
        Case{"MapForText", "data.train={a: b}",
             "data.train is a map: needs a path, or a list of paths"},
        Case{"EmptyPathOfAList", "data.train=[a.h5, \"\"]",
             "data.train.1 is the quoted text \"\": needs a path"},
        Case{"ListInAList", "data.test=[[a.h5]]", "data.test.0 is a list: needs a path"},
        Case{"WordForASection", "train.wire=bf16", "train.wire is \"bf16\": needs a map"},
        Case{"SlashInAName", "model.tables.C1.name=a/b",
             "model.tables.0.name is \"a/b\": needs a name: letters, digits, _ - . (not first), at "
             "most 200"},
        Case{"Size", "memory.cached.fast=64MB",
             "memory.cached.fast is \"64MB\": needs a size as 64MiB (KiB, MiB, GiB, TiB) or 10%"},
        Case{"EmptyFolder", "output.directory=", "output.directory is empty: needs a path"},
        Case{"VariableWithoutEnd", "data.train=a/${env:HOME",
             "data.train is \"a/${env:HOME\": needs ${env:NAME}, with the name of a variable"},
        Case{"OverrideValue", "sharding.tables={t: rows}",
             "sharding.tables.t is \"rows\": needs one of auto, table, row, column, grid, "
             "data_parallel"}),
    [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(
    HiddenLayers, BadValue,
    ::testing::Values(Case{"DropoutOfAll", "model.dropout.top=1",
                           "model.dropout.top is \"1\": needs a number from 0 to below 1"},
                      Case{"DropoutBelowZero", "model.dropout={top: 0.5, bottom: -0.1}",
                           "model.dropout.bottom is \"-0.1\": needs a number from 0 to below 1"},
                      Case{"LayerNormByAWord", "model.layer_norm.top=layer",
                           "model.layer_norm.top is \"layer\": needs one of true, false"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(HiddenLayers, SettingsOfAnMlpWithoutAnyAreErrors) {
  EXPECT_EQ(error_of(kSmallYaml, {"model.top_mlp=[1]", "model.dropout.top=0.5"}),
            "--set model.dropout.top=0.5: model.dropout.top is for hidden layers, and "
            "model.top_mlp has none: leave it out");
  EXPECT_EQ(error_of("model:\n"
                     "  dense_features: 13\n"
                     "  bottom_mlp: [16]\n"
                     "  top_mlp: [8, 1]\n"
                     "  dropout: {bottom: 0.5}\n"
                     "  tables: [{name: C1, rows: 100}]\n"
                     "data: {train: train.h5}\n"
                     "train: {global_batch_size: 64}\n"),
            "small.yaml:5: model.dropout.bottom is for hidden layers, and model.bottom_mlp has "
            "none: leave it out");
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, BadValue,
    ::testing::Values(
        Case{"Type", "train.lr_schedule.type=linear",
             "train.lr_schedule.type is \"linear\": needs one of polynomial, cosine, step"},
        Case{"PowerOfACosine", "train.lr_schedule={type: cosine, power: 2}",
             "train.lr_schedule.power has no effect if the type is cosine: leave it out"},
        Case{"FloorOfAPolynomial", "train.lr_schedule.floor=0.1",
             "train.lr_schedule.floor has no effect if the type is polynomial: leave it out"},
        Case{"DecayStepsOfSteps", "train.lr_schedule={type: step, every: 5, decay_steps: 5}",
             "train.lr_schedule.decay_steps has no effect if the type is step: leave it out"},
        Case{"StepsWithoutEvery", "train.lr_schedule={type: step}",
             "train.lr_schedule.every is missing: type step needs a whole number from 1 to "
             "9007199254740992"},
        Case{"EveryZero", "train.lr_schedule={type: step, every: 0}",
             "train.lr_schedule.every is \"0\": needs a whole number from 1 to "
             "9007199254740992"}),
    [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Keys, BadValue,
    ::testing::Values(
        Case{"Misspelt", "train.bach_size=4",
             "unknown key train.bach_size; the nearest is train.global_batch_size"},
        Case{"LikeNoOther", "output.frobnicate=4",
             "unknown key output.frobnicate; there are directory and metrics_every"},
        Case{"InTheWrongSection", "epochs=4", "unknown key epochs; the nearest is train.epochs"},
        Case{"InTheFirstOfTwoSections", "train.every_steps=4",
             "unknown key train.every_steps; the nearest is eval.every_steps"},
        Case{"InATable", "model.tables.C1.row=4",
             "unknown key model.tables.0.row; the nearest is model.tables.0.rows"},
        Case{"NoEquals", "train.seed", "needs the form a.b.c=value"},
        Case{"NoKey", "=4", "needs the form a.b.c=value"},
        Case{"EmptySegment", "train..seed=4", "needs the form a.b.c=value"},
        Case{"BadYaml", "train.wire={forward: ", "not valid YAML: end of map flow not found"},
        Case{
            "InsideAWord", "model.tables.C1.rows.x=4",
            "model.tables.C1.rows is \"100\" (small.yaml:5), which has nothing inside; set it as a "
            "whole"},
        Case{
            "NoSuchItem", "model.tables.9.rows=4",
            "model.tables (small.yaml:5) has no item 9: needs a number below 2, or an item's name"},
        Case{"NumberWithARest", "model.tables.0x.rows=4",
             "model.tables (small.yaml:5) has no item 0x: needs a number below 2, or an item's "
             "name"},
        Case{"InsideWhatIsAbsent", "model.tables.C1.features.0.name=4",
             "model.tables.0.features is a map: needs a list of maps, at least one"},
        Case{"TableLikeAnother", "memory.tables={C2: host}",
             "memory.tables names C2, which is no table; the nearest is C1"},
        Case{"UnknownTable", "memory.tables={T: host}",
             "memory.tables names T, which is no table; the nearest is t"},
        Case{"SizeOfACachedTable", "memory.cached.tables={C1: 5}",
             "memory.cached.tables.C1 is \"5\": needs a size as 64MiB (KiB, MiB, GiB, TiB) or 10%"},
        Case{"UnknownMember", "sharding.tables={t_3: row}",
             "sharding.tables names t_3, which is no table; the nearest is t"}),
    [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Models, BadValue,
    ::testing::Values(
        Case{"TwoLogits", "model.top_mlp=[8, 2]",
             "model.top_mlp ends with 2: needs 1 as its last width, the logit"},
        Case{"NoTop", "model.top_mlp=[]",
             "model.top_mlp is a list: needs a list of 1 to 64 whole numbers from 1 to 1048576"},
        Case{"NoTables", "model.tables=[]",
             "model.tables is a list: needs a list of maps, at least one"},
        Case{"NoFeatures", "model.tables.C1.features=[]",
             "model.tables.0.features is a list: needs a list of maps, at least one"},
        Case{"RankOfDot", "model.interaction={type: dot, rank: 3}",
             "model.interaction.rank belongs to type cross, and the type is dot"},
        Case{"LayersOfFm", "model.interaction={type: fm, layers: 3}",
             "model.interaction.layers belongs to type cross, and the type is fm"},
        Case{"OrderOfCross", "model.interaction={type: cross, order: dense_last}",
             "model.interaction.order belongs to type concat, and the type is cross"},
        Case{"PoolWiderThanE", "model.interaction={type: concat, average_pool: 65}",
             "model.interaction.average_pool is 65: needs at most the embedding width, 64"}),
    [](const auto& info) { return std::string(info.param.name); });

struct FileCase {
  const char* name;
  const char* yaml;
  const char* error;
};

class BadFile : public ::testing::TestWithParam<FileCase> {};

TEST_P(BadFile, TheErrorNamesTheLine) { EXPECT_EQ(error_of(GetParam().yaml), GetParam().error); }

#define DLRM_MODEL "model: {dense_features: 13, top_mlp: [1], tables: [{name: a, rows: 9}]}\n"

INSTANTIATE_TEST_SUITE_P(
    All, BadFile,
    ::testing::Values(
        FileCase{"Empty", "", "small.yaml: is empty: needs a YAML config"},
        FileCase{"OnlyAComment", "# nothing\n", "small.yaml: is empty: needs a YAML config"},
        FileCase{"AWord", "train\n",
                 "small.yaml:1: is \"train\": needs a map with model, data, train"},
        FileCase{"Syntax", "model:\n  a: b: c\n",
                 "small.yaml:2: not valid YAML: illegal map value"},
        FileCase{"SecondDocument", "a: 1\n---\nb: 1\n",
                 "small.yaml:3: a second YAML document begins (---); a config is one"},
        FileCase{"KeyTwice", "train: {}\nmodel: {}\ntrain: {}\n",
                 "small.yaml:3: key train is written twice, first at small.yaml:1; write it once"},
        FileCase{"KeyIsAList", "[a]: 1\n", "small.yaml:1: a key is a list; keys are words"},
        FileCase{"AliasOfItself", "a: &x {b: *x}\n",
                 "small.yaml:1: an alias (*) of what contains it; it can only repeat what ended "
                 "before"},
        FileCase{"MergeOfAWord", "a: {<<: b}\n",
                 "small.yaml:1: << merges \"b\"; it takes a map or a list of maps"},
        FileCase{"UnknownKey", DLRM_MODEL "evel:\n",
                 "small.yaml:2: unknown key evel; the nearest is eval"},
        FileCase{"NoModel", "train: {global_batch_size: 4}\n",
                 "small.yaml:1: model.dense_features is missing: needs a whole number from 0 to "
                 "1000000"},
        FileCase{"NoTop", "model:\n  dense_features: 4\n",
                 "small.yaml:2: model.top_mlp is missing: needs a list of 1 to 64 whole numbers "
                 "from 1 to 1048576"},
        FileCase{"NoTables", "model:\n  dense_features: 4\n  top_mlp: [1]\n",
                 "small.yaml:2: model.tables is missing: needs a list of maps, at least one"},
        FileCase{"NoBatch", DLRM_MODEL "train:\n  seed: 4\n",
                 "small.yaml:3: train.global_batch_size is missing: needs a whole number from 1 to "
                 "2147483647, or auto"},
        FileCase{"NoTrainingData", DLRM_MODEL "train: {global_batch_size: 4}\n",
                 "small.yaml:1: data.train is missing: needs the path of a dataset (data.source is "
                 "hdf5)"},
        FileCase{"NoText", DLRM_MODEL "data: {source: criteo}\ntrain: {global_batch_size: 4}\n",
                 "small.yaml:2: data.train is missing: needs the path of a Criteo log (data.source "
                 "is criteo)"},
        FileCase{"ShuffledText",
                 DLRM_MODEL "data: {source: criteo, train: a.gz}\n"
                            "train: {global_batch_size: 4}\n",
                 "small.yaml:2: data.shuffle is true, but data.source criteo reads text in its "
                 "order: needs false, or a dataset made by dlrm-data criteo"},
        FileCase{"UnsetVariable",
                 DLRM_MODEL "data: {train: a.h5}\ntrain: {global_batch_size: 4}\n"
                            "checkpoint:\n  directory: ckpt/${env:DLRM_NO_SUCH}\n",
                 "small.yaml:5: checkpoint.directory is \"ckpt/${env:DLRM_NO_SUCH}\": the "
                 "environment variable DLRM_NO_SUCH is not set"},
        FileCase{"StepsAndEpochs",
                 DLRM_MODEL "train:\n  global_batch_size: 4\n  epochs: 1\n  steps: 2\n",
                 "small.yaml:5: train.steps and train.epochs (at small.yaml:4) are both set: set "
                 "one"},
        FileCase{
            "HotnessBesideFeatures",
            "model:\n  dense_features: 4\n  top_mlp: [1]\n  tables:\n"
            "    - name: a\n      rows: 3\n      hotness: 2\n      features: [{name: b}]\n",
            "small.yaml:7: model.tables.0.hotness is set together with features: set it in each "
            "feature"},
        FileCase{"TableTwice",
                 "model:\n  dense_features: 4\n  top_mlp: [1]\n  tables:\n"
                 "    - {name: a_1, rows: 3}\n    - {name: a, rows: 3, count: 2}\n",
                 "small.yaml:6: table name a_1 is already used at small.yaml:5: names must "
                 "differ"},
        FileCase{"GroupNamedAsATable",
                 "model:\n  dense_features: 4\n  top_mlp: [1]\n  tables:\n"
                 "    - {name: a, rows: 3}\n    - {name: a, rows: 3, count: 2}\n",
                 "small.yaml:6: table name a is already used at small.yaml:5: names must differ"},
        FileCase{"FeatureTwice",
                 "model:\n  dense_features: 4\n  top_mlp: [1]\n  tables:\n"
                 "    - {name: a, rows: 3}\n    - {name: b, rows: 3, features: [{name: a}]}\n",
                 "small.yaml:6: feature name a is already used at small.yaml:5: names must "
                 "differ"},
        FileCase{"DenseWidthOfProjections",
                 "model:\n  dense_features: 4\n  bottom_mlp: [8]\n  top_mlp: [1]\n"
                 "  interaction: fm\n  tables:\n    - {name: a, rows: 3}\n"
                 "train: {global_batch_size: 4}\n",
                 "small.yaml:5: interaction fm needs a dense side as wide as model.embedding_dim, "
                 "16; it has 8 (the last of bottom_mlp)"},
        FileCase{"BottomWithoutDense",
                 "model:\n  dense_features: 0\n  bottom_mlp: [8]\n  top_mlp: [1]\n"
                 "  tables: [{name: a, rows: 3}, {name: b, rows: 3}]\n"
                 "train: {global_batch_size: 4}\n",
                 "small.yaml:3: model.bottom_mlp has layers, but model.dense_features is 0: needs "
                 "[], or leave it out"},
        FileCase{"DotOfOneFeatureAlone",
                 "model:\n  dense_features: 0\n  top_mlp: [1]\n  tables: [{name: a, rows: 3}]\n"
                 "train: {global_batch_size: 4}\n",
                 "small.yaml:1: interaction dot has no product: needs dense features, or at least "
                 "two features"},
        FileCase{"DotWithoutABottomMlp",
                 "model:\n  dense_features: 4\n  bottom_mlp: []\n  top_mlp: [1]\n  tables:\n"
                 "    - {name: a, rows: 3}\n"
                 "train: {global_batch_size: 4}\n",
                 "small.yaml:1: interaction dot needs a dense side as wide as model.embedding_dim, "
                 "16; it has 4 (model.dense_features, with no bottom MLP)"}),
    [](const auto& info) { return std::string(info.param.name); });

/// What is missing in a section that an override made is missing there.
TEST(BadFile, TheOverrideThatMadeASectionIsNamed) {
  EXPECT_EQ(
      error_of(DLRM_MODEL, {"train.seed=4"}),
      "--set train.seed=4: train.global_batch_size is missing: needs a whole number from 1 to "
      "2147483647, or auto");
  EXPECT_EQ(error_of("train: {global_batch_size: 4}\n", {"model.activation=relu", "comm=mpi"}),
            "--set model.activation=relu: model.dense_features is missing: needs a whole number "
            "from 0 to 1000000");
  EXPECT_EQ(error_of(DLRM_MODEL "train: {global_batch_size: 4}\n", {"data.shuffle=false"}),
            "--set data.shuffle=false: data.train is missing: needs the path of a dataset "
            "(data.source is hdf5)");
}

TEST(BadFile, AKeyOfTheFileIsNamedThereIfAnOverrideSetsAKeyInIt) {
  EXPECT_EQ(error_of("evel: {x: 1}\n" DLRM_MODEL, {"evel.every_steps=4"}),
            "small.yaml:1: unknown key evel; the nearest is eval");
  EXPECT_EQ(error_of(kSmallYaml + "eval: {patienc: 1}\n", {"eval.keap=4"}),
            fmt::format("small.yaml:{}: unknown key eval.patienc; the nearest is "
                        "eval.patience",
                        std::count(kSmallYaml.begin(), kSmallYaml.end(), '\n') + 1));
  EXPECT_EQ(error_of(kSmallYaml + "eval: {at_end: true}\n", {"eval.patienc=4"}),
            "--set eval.patienc=4: unknown key eval.patienc; the nearest is "
            "eval.patience");
}

TEST(BadFile, AnOverrideInsideAWordNamesThePlaceOfTheWord) {
  EXPECT_THAT(error_of(kSmallYaml + "output: off\n", {"output.directory=runs"}),
              ::testing::AllOf(::testing::StartsWith("--set output.directory=runs: "),
                               ::testing::HasSubstr("small.yaml:9")));
}

// The config of a checkpoint need not have the data.
TEST(BadFile, ComparingEvaluationsNeedsTestData) {
  const std::string file = ::testing::TempDir() + "evaluated.yaml";
  for (const char* key :
       {"eval:\n  stop_at_auc: 0.8", "eval:\n  patience: 2", "checkpoint:\n  keep_best: auc"}) {
    const std::string yaml = kSmallYaml + key + "\n";
    EXPECT_EQ(error_of(yaml), "");
    std::ofstream(file) << yaml;
    EXPECT_THAT(error_of_file(file), ::testing::AllOf(::testing::StartsWith(file + ":10: "),
                                                      ::testing::HasSubstr("data.test")))
        << key;
    EXPECT_EQ(error_of_file(file, {"data.test=test.h5"}), "");
    EXPECT_EQ(error_of_file(file, {"data.valid=valid.h5"}), "");
    EXPECT_EQ(error_of_file(file, {"data.source=synthetic"}), "");
  }
}

TEST(BadFile, ValidationDataThatNothingEvaluatesIsRefused) {
  const std::string file = ::testing::TempDir() + "validated.yaml";
  std::ofstream(file) << kSmallYaml;
  const auto refused = [&](const std::vector<std::string>& overrides, const std::string& what) {
    EXPECT_THAT(error_of_file(file, overrides),
                ::testing::AllOf(::testing::StartsWith("--set " + overrides[0] + ": "),
                                 ::testing::HasSubstr(what)));
  };
  EXPECT_EQ(error_of_file(file, {"data.valid=b"}), "");
  refused({"data.valid=b", "eval.at_end=false"}, "eval.every_epochs");
  refused({"data.valid=b", "data.source=synthetic"}, "data.source");
  refused({"eval.every_epochs=0.5", "eval.every_steps=3"}, "both set");
}

TEST(BadValue, ATableHasNoPenaltyOfItsOwnWithFtrl) {
  const std::vector<std::string> overrides = {"model.tables.C1.l2=0.1",
                                              "train.sparse_optimizer.type=ftrl"};
  EXPECT_EQ(error_of(kSmallYaml, {overrides[0]}), "");
  EXPECT_THAT(error_of(kSmallYaml, overrides),
              ::testing::AllOf(::testing::HasSubstr("table C1"), ::testing::HasSubstr("ftrl")));
}

TEST(BadValue, ZeroRowsHaveNoScale) {
  const std::string init = "model.tables.C1.init=";
  EXPECT_EQ(error_of(kSmallYaml, {init + "{type: zero}"}), "");
  EXPECT_EQ(error_of(kSmallYaml, {init + "{type: normal, scale: 0.1}"}), "");
  EXPECT_THAT(error_of(kSmallYaml, {init + "{type: zero, scale: 0.1}"}),
              ::testing::AllOf(::testing::StartsWith("--set " + init),
                               ::testing::HasSubstr("model.tables.0.init.scale has no effect")));
  EXPECT_THAT(error_of(kSmallYaml, {init + "{scale: 0}"}), ::testing::HasSubstr("needs a number"));
}

TEST(BadValue, WeightsOfIdsNeedSumsAndARoutingThatCarriesThem) {
  const std::string weighted = "model.tables.C1.weights=true";
  EXPECT_EQ(error_of(kSmallYaml, {weighted, "model.tables.C1.pooling=mean"}),
            "--set " + weighted +
                ": model.tables.0.weights needs pooling sum; for a weighted mean, give weights "
                "whose sum in a bag is 1");
  EXPECT_EQ(error_of(kSmallYaml, {weighted, "routing.mode=fixed"}),
            "--set routing.mode=fixed: routing.mode is fixed, and ids of a feature have weights: "
            "needs exact");
  EXPECT_EQ(error_of(kSmallYaml, {weighted, "data.source=criteo", "data.shuffle=false"}),
            "--set data.source=criteo: data.source is criteo, whose ids have no weights: needs "
            "hdf5, or features without weights");
}

TEST(BadValue, MaxPoolingNeedsAllRowsOnOneRankAndNoWeights) {
  const std::string max = "model.tables.t.pooling=max";
  for (const char* strategy : {"table", "column", "data_parallel", "auto"}) {
    EXPECT_EQ(error_of(kSmallYaml, {max, std::string("sharding.tables.t=") + strategy}), "");
  }
  EXPECT_EQ(error_of(kSmallYaml, {max, "sharding.tables={C1: row}"}), "");
  const std::string remedy =
      " by rows, and a feature of it has pooling max: needs table, column, data_parallel or auto";
  EXPECT_EQ(error_of(kSmallYaml, {max, "sharding.tables={t: row}"}),
            "--set sharding.tables={t: row}: sharding.tables.t cuts table t_0" + remedy);
  EXPECT_EQ(error_of(kSmallYaml + "sharding: {strategy: grid}\n", {max}),
            "small.yaml:9: sharding.strategy cuts table t_0" + remedy);
  EXPECT_EQ(error_of(kSmallYaml, {max, "sharding={strategy: row, tables: {t: table}}"}), "");
  EXPECT_THAT(error_of(kSmallYaml, {max, "model.tables.t.weights=true"}),
              ::testing::HasSubstr("weights needs pooling sum"));
}

TEST(BadValue, EvaluationsAreDividedByAFeatureWithOneId) {
  EXPECT_EQ(small_config({"eval.slice_by=C1"}).eval.slice_by, "C1");
  EXPECT_EQ(error_of(kSmallYaml, {"eval.slice_by=C2"}),
            "--set eval.slice_by=C2: eval.slice_by is C2: needs the name of a feature of the "
            "model");
  EXPECT_EQ(error_of(kSmallYaml + "eval: {slice_by: t_1}\n"),
            "small.yaml:9: eval.slice_by is t_1, whose hotness is 2: needs a feature with one id");
}

TEST(BadValue, ASizeIsOfACachedTable) {
  const std::string size = "memory.cached.tables.C1=1MiB";
  EXPECT_EQ(error_of(kSmallYaml, {size}), "");
  EXPECT_EQ(error_of(kSmallYaml, {size, "memory.tier=cached"}), "");
  EXPECT_EQ(error_of(kSmallYaml, {size, "memory.tier=device", "memory.tables.C1=cached"}), "");
  const std::string needs =
      "memory.cached.tables.C1 is 1MiB, but the table is not cached: needs memory.tier or "
      "memory.tables to make it so";
  EXPECT_EQ(error_of(kSmallYaml, {size, "memory.tables.C1=host"}), "--set " + size + ": " + needs);
  EXPECT_EQ(error_of(kSmallYaml + "memory:\n  tier: device\n  cached: {tables: {C1: 1MiB}}\n"),
            "small.yaml:11: " + needs);
  EXPECT_EQ(error_of(kSmallYaml, {size, "memory.tables.C1=auto", "memory.tier=host"}), "");
}

TEST(BadValue, ALongOverrideIsShownInPart) {
  const std::string text = "comm=" + std::string(195, 'x');
  const std::string needs =
      ": comm is \"" + std::string(60, 'x') + "...\": needs one of auto, mpi, nccl, staged";
  EXPECT_EQ(error_of(kSmallYaml, {text}), "--set " + text + needs);
  EXPECT_EQ(error_of(kSmallYaml, {text + "y"}), "--set " + text + "..." + needs);
  EXPECT_EQ(error_of(kSmallYaml, {"a\nb"}), "--set a?b: needs the form a.b.c=value");
}

TEST(BadFile, TooDeepNestingIsRefused) {
  EXPECT_THAT(error_of(std::string(5000, '[')), ::testing::HasSubstr("deep"));
  EXPECT_THAT(error_of(std::string(5000, '{')), ::testing::HasSubstr("deep"));
}

TEST(BadFile, AliasesThatMultiplyAreRefusedAtOnce) {
  std::string yaml = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 64; ++i) {
    yaml += fmt::format("a{0}: &a{0} [*a{1}, *a{1}]\n", i, i - 1);
  }
  EXPECT_THAT(error_of(yaml), ::testing::HasSubstr("unknown key a0"));
}

TEST(BadFile, AnEscapeThatIsNoneIsShownWithoutControlCharacters) {
  EXPECT_THAT(error_of("model: \"\\\x1b\""), ::testing::EndsWith("unknown escape character: ?"));
}

TEST(BadValue, AValueOfManyLinesIsShownOnOneLine) {
  const std::string error = error_of(kSmallYaml, {"comm=\"a\\nb\""});
  EXPECT_THAT(error, ::testing::Not(::testing::HasSubstr("\n")));
  EXPECT_THAT(error, ::testing::HasSubstr("a?b"));
}

}  // namespace
}  // namespace dlrm
