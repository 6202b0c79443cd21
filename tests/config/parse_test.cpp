#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>

#include <gmock/gmock.h>

#include "sample_config.h"

namespace dlrm {
namespace {

using Paths = std::vector<std::string>;

TEST(ParseConfig, AbsentKeysHaveTheDocumentedDefaults) {
  const RunConfig config = small_config();
  EXPECT_EQ(config.model.bottom_mlp, (std::vector<int64_t>{512, 256, 64, 16}));
  EXPECT_EQ(config.model.embedding_dim, 16);
  EXPECT_EQ(config.model.interaction, InteractionConfig(DotConfig()));
  EXPECT_EQ(config.train.epochs, 1);
  EXPECT_EQ(config.train.steps, -1);
  EXPECT_EQ(config.train.dense_optimizer, (OptimizerConfig{OptimizerRule::kSgd, 0.1}));
  EXPECT_EQ(config.train.sparse_optimizer, (OptimizerConfig{OptimizerRule::kAdagrad, 0.01}));
  EXPECT_EQ(config.data.workers, 2);
  EXPECT_EQ(config.data.prefetch, 4);
  EXPECT_EQ(config.memory.cached.fast, "10%");
  EXPECT_EQ(config.checkpoint.directory, "ckpt");
  EXPECT_EQ(config.output.directory, "runs/example");
}

TEST(ParseConfig, TheBatchSizeMayBeLeftToBeChosen) {
  const RunConfig config = small_config({"train.global_batch_size=auto"});
  EXPECT_EQ(config.train.global_batch_size, 0);
  EXPECT_THAT(to_yaml(config), ::testing::HasSubstr("global_batch_size: auto"));
  EXPECT_EQ(parse_config(to_yaml(config), "again"), config);
  EXPECT_EQ(small_config({"train.global_batch_size=7"}).train.global_batch_size, 7);
}

TEST(ParseConfig, LearningRatesMayFollowTheBatchSize) {
  const auto factor = [](const std::string& scaling, int64_t batch) {
    return small_config({"train.lr_scaling=" + scaling, "train.lr_base_batch=1000",
                         fmt::format("train.global_batch_size={}", batch)})
        .train.batch_factor();
  };
  EXPECT_EQ(factor("none", 4000), 1);
  EXPECT_EQ(factor("linear", 4000), 4);
  EXPECT_EQ(factor("linear", 500), 0.5);
  EXPECT_EQ(factor("sqrt", 4000), 2);
  EXPECT_EQ(small_config().train.batch_factor(), 1);
}

TEST(ParseConfig, ACountedTableIsExpanded) {
  const auto tables = small_config().model.tables;
  ASSERT_EQ(tables.size(), 4u);
  EXPECT_EQ(tables[0].group, "C1");
  EXPECT_EQ(tables[3].name, "t_2");
  EXPECT_EQ(tables[3].group, "t");
  EXPECT_EQ(tables[3].features, (std::vector<FeatureConfig>{{"t_2", 2, Pooling::kSum}}));
}

TEST(ParseConfig, FeaturesOfACountedTableGetItsSuffix) {
  const auto config = small_config(
      {"model.tables.t={name: u, count: 2, rows: 4, features: [{name: one}, {name: many, hotness: "
       "9, pooling: mean}]}"});
  const TableConfig& last = config.model.tables.back();
  EXPECT_EQ(last.name, "u_1");
  EXPECT_EQ(last.features, (std::vector<FeatureConfig>{{"one_1", 1, Pooling::kSum},
                                                       {"many_1", 9, Pooling::kMean}}));
}

TEST(ParseConfig, ACountOfOneGetsASuffixToo) {
  const auto config = small_config({"model.tables.t.count=1"});
  EXPECT_EQ(config.model.tables.back().name, "t_0");
}

TEST(ParseConfig, TheLinearPartHasATableForEachFeature) {
  const ModelConfig plain = small_config().model;
  const RunConfig config = small_config({"model.linear=true", "sharding.tables={linear/t_1: row}"});
  const ModelConfig& model = config.model;
  ASSERT_EQ(model.tables.size(), 8u);
  EXPECT_EQ(model.tables[7].name, "linear/t_2");
  EXPECT_EQ(model.tables[7].path(), "/linear/t_2");
  EXPECT_EQ(model.tables[3].path(), "/tables/t_2");
  EXPECT_EQ(model.tables[7].rows, model.tables[3].rows);
  EXPECT_EQ(model.tables[7].dim, 1);
  EXPECT_EQ(model.tables[7].features, model.tables[3].features);
  EXPECT_EQ(model.interaction_width(), plain.interaction_width());
  EXPECT_EQ(model.embedding_width(), plain.embedding_width() + 4);
  EXPECT_EQ(model.dense_parameters(), plain.dense_parameters() + plain.dense_features);
  EXPECT_EQ(model.without_linear(), plain);
  EXPECT_EQ(config.sharding.tables.at("linear/t_1"), Strategy::kRow);
  EXPECT_EQ(parse_config(to_yaml(config), "again"), config);
}

TEST(ParseConfig, InitialRowsHaveADefaultScale) {
  const auto init = [](const std::string& text) {
    const RunConfig config = small_config({"model.tables.C1.init=" + text});
    EXPECT_EQ(parse_config(to_yaml(config), "again"), config);
    return config.model.tables[0].row_init();
  };
  const auto rows = static_cast<double>(small_config().model.tables[0].rows);
  EXPECT_EQ(small_config().model.tables[0].row_init().type, InitType::kUniform);
  EXPECT_EQ(init("{type: uniform}").scale, static_cast<float>(1 / std::sqrt(rows)));
  EXPECT_EQ(init("{type: normal}").scale, 0.01f);
  EXPECT_EQ(init("{type: normal, scale: 0.5}").scale, 0.5f);
  EXPECT_EQ(init("{scale: 0.5}").type, InitType::kUniform);
  EXPECT_EQ(init("{type: zero}").type, InitType::kZero);
}

TEST(ParseConfig, InteractionIsAWordOrAMap) {
  EXPECT_EQ(small_config({"model.interaction=cross"}).model.interaction,
            InteractionConfig(CrossConfig{3, CrossConfig::kAuto}));
  const RunConfig concat =
      small_config({"model.interaction={type: concat, order: dense_last, average_pool: 7}"});
  EXPECT_EQ(concat.model.interaction, InteractionConfig(ConcatConfig{ConcatOrder::kDenseLast, 7}));
}

TEST(ParseConfig, AdamHasItsOwnEps) {
  const auto adam = small_config({"train.dense_optimizer.type=adam"}).train.dense_optimizer;
  EXPECT_EQ(adam.eps, 1e-8);
  const auto told = small_config({"train.dense_optimizer={type: adam, eps: 1e-6}"});
  EXPECT_EQ(told.train.dense_optimizer.eps, 1e-6);
  const auto lamb = small_config({"train.dense_optimizer={type: lamb}"}).train.dense_optimizer;
  EXPECT_EQ(lamb.eps, 1e-6);
  EXPECT_EQ(lamb.weight_decay, 0);
  EXPECT_EQ(small_config().train.sparse_optimizer.eps, 1e-10);
  const auto ftrl =
      small_config({"train.sparse_optimizer={type: ftrl, l1: 0.5, l2: 2}"}).train.sparse_optimizer;
  EXPECT_EQ(ftrl.type, OptimizerRule::kFtrl);
  EXPECT_EQ(ftrl.beta, 1);
  EXPECT_EQ(ftrl.l1, 0.5);
  EXPECT_EQ(ftrl.l2, 2);
}

TEST(ParseConfig, StepsReplaceEpochs) {
  const std::string yaml = kSmallYaml.substr(0, kSmallYaml.find("train: {")) +
                           "train: {global_batch_size: 64, steps: 0}\n";
  const RunConfig config = parse_config(yaml, "small.yaml");
  EXPECT_EQ(config.train.steps, 0);
  EXPECT_EQ(config.train.epochs, 0);
}

TEST(ParseConfig, WholeNumbersMayBeWrittenAsReals) {
  EXPECT_EQ(small_config({"train.global_batch_size=65536.0"}).train.global_batch_size, 65536);
  EXPECT_EQ(small_config({"data.synthetic.samples=1e6"}).data.synthetic.samples, 1000000);
  EXPECT_EQ(small_config({"train.seed=18446744073709551615"}).train.seed, UINT64_MAX);
}

TEST(ParseConfig, TablesMayBeNamedLikeBooleansAndNumbers) {
  const auto config = small_config({"model.tables.0.name=no", "model.tables.1.name=7"});
  EXPECT_EQ(config.model.tables[0].name, "no");
  EXPECT_EQ(config.model.tables[1].name, "7_0");
}

TEST(ParseConfig, AGroupOverridesAllItsTablesAndATableItsGroup) {
  const auto tables =
      small_config({"sharding.tables={t_1: column, t: row, C1: table}"}).sharding.tables;
  const std::map<std::string, Strategy> want{{"C1", Strategy::kTable},
                                             {"t_0", Strategy::kRow},
                                             {"t_1", Strategy::kColumn},
                                             {"t_2", Strategy::kRow}};
  EXPECT_EQ(tables, want);
}

TEST(ParseConfig, PathsMayContainEnvironmentVariables) {
  ::setenv("DLRM_TEST_TASK", "12", 1);
  ::setenv("DLRM_TEST_USER", "me", 1);
  const RunConfig config = small_config(
      {"output.directory=/scratch/${env:DLRM_TEST_USER}/run-${env:DLRM_TEST_TASK}",
       "checkpoint.directory=\"ckpt/${env:DLRM_TEST_TASK}\"", "data.train=${env:DLRM_TEST_USER}",
       "data.test=${env:DLRM_TEST_TASK}.h5", "sharding.plan=$HOME/${x}"});
  EXPECT_EQ(config.output.directory, "/scratch/me/run-12");
  EXPECT_EQ(config.checkpoint.directory, "ckpt/12");
  EXPECT_EQ(config.data.train, Paths{"me"});
  EXPECT_EQ(config.data.test, Paths{"12.h5"});
  EXPECT_EQ(config.sharding.plan, "$HOME/${x}");
  ::setenv("DLRM_TEST_TASK", "13", 1);
  EXPECT_EQ(parse_config(to_yaml(config), "again.yaml"), config);
}

TEST(ParseConfig, AModelMayHaveNoDenseFeatures) {
  const RunConfig config = small_config({"model.dense_features=0"});
  EXPECT_EQ(config.model.bottom_mlp, std::vector<int64_t>());
  EXPECT_EQ(config.model.interaction_width(), 4 * 3 / 2);
  EXPECT_EQ(config.model.dense_parameters(), (6 + 1) * 8 + (8 + 1));
  EXPECT_EQ(parse_config(to_yaml(config), "again.yaml"), config);
  EXPECT_EQ(
      small_config({"model.dense_features=0", "model.interaction=fm"}).model.interaction_width(),
      4 * 16 + 1);
}

TEST(ParseConfig, DataMayBeAListOfPaths) {
  ::setenv("DLRM_TEST_TASK", "12", 1);
  const RunConfig config = small_config(
      {"data.train=[day_0.h5, \"a, b.h5\", \"${env:DLRM_TEST_TASK}/x\"]", "data.test=[t.h5]"});
  EXPECT_EQ(config.data.train, (Paths{"day_0.h5", "a, b.h5", "12/x"}));
  EXPECT_EQ(config.data.test, Paths{"t.h5"});
  EXPECT_EQ(parse_config(to_yaml(config), "again.yaml"), config);
  EXPECT_EQ(small_config({"data.test=[]"}).data.test, Paths{});
  EXPECT_EQ(small_config({"data.train=[a.h5, b.h5]", "data.train.1=c.h5"}).data.train,
            (Paths{"a.h5", "c.h5"}));
}

TEST(ParseConfig, AVariableIsNotReplacedTwice) {
  ::setenv("DLRM_TEST_NESTED", "${env:HOME}", 1);
  EXPECT_EQ(error_of(kSmallYaml, {"data.test=${env:DLRM_TEST_NESTED}"}),
            "--set data.test=${env:DLRM_TEST_NESTED}: data.test is \"${env:DLRM_TEST_NESTED}\", "
            "which becomes \"${env:HOME}\": needs a path");
}

TEST(ParseConfig, AnchorsAndMergeKeysAreApplied) {
  const std::string yaml =
      "model:\n"
      "  dense_features: 13\n"
      "  top_mlp: [1]\n"
      "  tables:\n"
      "    - &base {name: a, rows: 100, hotness: 3}\n"
      "    - {<<: *base, name: b}\n"
      "    - {name: c, <<: [{rows: 7}, *base]}\n"
      "data: {train: train.h5}\n"
      "train:\n"
      "  global_batch_size: 64\n"
      "  dense_optimizer: &opt {type: adagrad, lr: 0.5}\n"
      "  sparse_optimizer: *opt\n";
  const RunConfig config = parse_config(yaml, "merge.yaml");
  EXPECT_EQ(config.model.tables[1].rows, 100);
  EXPECT_EQ(config.model.tables[1].name, "b");
  EXPECT_EQ(config.model.tables[2].rows, 7);
  EXPECT_EQ(config.model.tables[2].features[0].hotness, 3);
  EXPECT_EQ(config.train.sparse_optimizer.lr, 0.5);
}

TEST(ParseConfig, AnEmptySectionIsAllDefaults) {
  const RunConfig config = parse_config(kSmallYaml + "eval:\nmemory:\n  tables:\n", "small.yaml");
  EXPECT_EQ(config, small_config());
}

TEST(ParseConfig, SyntheticDataNeedsNoTrainingFile) {
  EXPECT_EQ(error_of(kSmallYaml, {"data={source: synthetic}"}), "");
}

TEST(ParseConfig, WithoutABottomMlpTheDenseFeaturesAreX) {
  const auto config = small_config({"model.bottom_mlp=[]", "model.dense_features=16"});
  EXPECT_EQ(config.model.bottom_width(), 16);
}

TEST(ParseConfig, TheDevicesMemoryHasNoLimitUnlessOneIsSet) {
  EXPECT_EQ(small_config().memory.device, "");
  EXPECT_EQ(small_config({"memory.device=60GiB"}).memory.device, "60GiB");
}

TEST(SizeInBytes, APercentageIsAShareOfTheWhole) {
  EXPECT_EQ(size_in_bytes("64KiB", 10), 65536);
  EXPECT_EQ(size_in_bytes("1.5GiB", 0), 1.5 * 0x1p30);
  EXPECT_EQ(size_in_bytes("2TiB", 0), 0x1p41);
  EXPECT_EQ(size_in_bytes("25%", 4096), 1024);
  EXPECT_EQ(size_in_bytes("", 4096), 4096);
}

TEST(Overrides, ItemsOfListsAreNamedByNumberOrName) {
  EXPECT_EQ(small_config({"model.tables.0.rows=10"}).model.tables[0].rows, 10);
  EXPECT_EQ(small_config({"model.tables.t.rows=11"}).model.tables[2].rows, 11);
  EXPECT_EQ(small_config({"model.top_mlp.0=9"}).model.top_mlp[0], 9);
}

TEST(Overrides, OverridesAreAppliedInOrder) {
  EXPECT_EQ(small_config({"train.seed=5", "train.seed=6"}).train.seed, 6u);
}

TEST(Overrides, MissingSectionsAreCreated) {
  EXPECT_EQ(small_config({"eval.every_steps=5"}).eval.every_steps, 5);
}

TEST(Overrides, OtherUsesOfAnAnchorAreNotChanged) {
  const std::string yaml = kSmallYaml.substr(0, kSmallYaml.find("train: {")) +
                           "train: {global_batch_size: 4, dense_optimizer: &o {type: sgd, lr: 1}, "
                           "sparse_optimizer: *o}\n";
  const RunConfig config = parse_config(yaml, "a.yaml", {"train.dense_optimizer.lr=2"});
  EXPECT_EQ(config.train.dense_optimizer.lr, 2);
  EXPECT_EQ(config.train.sparse_optimizer.lr, 1);
}

TEST(Overrides, AnOverrideOfStepsRemovesTheEpochsOfTheFile) {
  const std::string yaml = kSmallYaml.substr(0, kSmallYaml.find("train: {")) +
                           "train: {global_batch_size: 64, epochs: 3}\n";
  EXPECT_EQ(parse_config(yaml, "a.yaml", {"train.steps=7"}).train.steps, 7);
  EXPECT_NE(error_of(yaml, {"train.steps=7", "train.epochs=2"}), "");
}

TEST(Overrides, AnOverrideOfEpochsRemovesTheStepsOfTheFile) {
  const std::string yaml = kSmallYaml.substr(0, kSmallYaml.find("train: {")) +
                           "train: {global_batch_size: 64, steps: 3}\n";
  const RunConfig config = parse_config(yaml, "a.yaml", {"train.epochs=2"});
  EXPECT_EQ(config.train.epochs, 2);
  EXPECT_EQ(config.train.steps, -1);
  EXPECT_NE(error_of(yaml, {"train.epochs=2", "train.steps=7"}), "");
  EXPECT_EQ(parse_config(yaml, "a.yaml", {"train={global_batch_size: 4, epochs: 5}"}).train.epochs,
            5);
}

TEST(Overrides, AnOverrideOfTextMayBeEmpty) {
  EXPECT_EQ(small_config({"data.test="}).data.test, Paths{});
  EXPECT_EQ(small_config({"data.test=a=b.h5"}).data.test, Paths{"a=b.h5"});
}

TEST(LoadConfig, AnUnreadableFileIsNamed) {
  EXPECT_EQ(usage_error_of([&] { load_config("/no/such/config.yaml"); }),
            "/no/such/config.yaml: cannot be read: No such file or directory");
}

TEST(LoadConfig, AFolderIsRefused) { EXPECT_THROW(load_config(repository_root().string()), Error); }

TEST(ToYaml, EveryShippedConfigIsReadBackUnchanged) {
  const auto paths = all_config_paths();
  EXPECT_GE(paths.size(), 16u);
  for (const std::string& path : paths) {
    const RunConfig config = load_config(path);
    const std::string yaml = to_yaml(config);
    const RunConfig again = parse_config(yaml, "again.yaml");
    EXPECT_EQ(again, config) << path;
    EXPECT_EQ(to_yaml(again), yaml) << path;
  }
}

TEST(ToYaml, UnusualValuesAreReadBackUnchanged) {
  const RunConfig config = small_config(
      {"data.train=\"a \\\"b\\\" # \\\\ {c}.h5\"", "data.test=~/x y",
       "model.interaction={type: "
       "cross, layers: 2, rank: 7}",
       "model.tables.0={name: \"null\", rows: 5, dim: 3, dtype: bf16, pooling: mean}",
       "model.tables.t={name: -7, count: 2, rows: 9, features: [{name: q, hotness: 4}, {name: r}]}",
       "train.precision=bf16", "train.wire={forward: fp16, backward: bf16, dense: bf16}",
       "train.sparse_optimizer={type: rowwise_adagrad, lr: 0.1234567890123456789, eps: 3e-9}",
       "sharding={strategy: grid, tables: {-7: row}, plan: p.json}", "comm=staged",
       "memory={tier: cached, tables: {\"null\": host}, device: 1.5GiB, cached: {fast: 64MiB, "
       "middle: 3.5%}}",
       "device=cuda", "model.activation=silu", "eval.stop_at_auc=0.8", "train.steps=12",
       "routing={mode: fixed, depth: 0}", "data.source=replay", "data.invalid_id=drop"});
  EXPECT_EQ(parse_config(to_yaml(config), "again.yaml"), config);
}

TEST(ToYaml, OnlyWholeGroupsAreFolded) {
  RunConfig config = small_config();
  config.model.tables.erase(config.model.tables.begin() + 1);  // t_0
  const auto again = parse_config(to_yaml(config), "again.yaml").model.tables;
  ASSERT_EQ(again.size(), 3u);
  EXPECT_EQ(again[1].name, "t_1");
  EXPECT_EQ(again[1].features, config.model.tables[1].features);
}

/// A table that differs from its group in anything is written apart.
TEST(ToYaml, TablesUnlikeTheirGroupAreReadBackUnchanged) {
  const std::vector<std::function<void(TableConfig&)>> changes{
      [](TableConfig& t) { t.rows = 7; },
      [](TableConfig& t) { t.dim = 7; },
      [](TableConfig& t) { t.dtype = DType::kBFloat16; },
      [](TableConfig& t) { t.name = "t_9"; },
      [](TableConfig& t) { t.group = "other"; },
      [](TableConfig& t) { t.features[0].name = "f"; },
      [](TableConfig& t) { t.features[0].hotness = 7; },
      [](TableConfig& t) { t.features[0].pooling = Pooling::kMean; },
      [](TableConfig& t) {
        t.features.push_back({"more", 2, Pooling::kSum});
      }};
  for (size_t i = 0; i < changes.size(); ++i) {
    for (const size_t t : {1, 2, 3}) {
      RunConfig config = small_config({"model.interaction=concat"});
      changes[i](config.model.tables[t]);
      auto again = parse_config(to_yaml(config), "again.yaml").model.tables;
      ASSERT_EQ(again.size(), 4u);
      for (size_t k = 0; k < again.size(); ++k) again[k].group = config.model.tables[k].group;
      EXPECT_EQ(again, config.model.tables) << i << " " << t;
    }
  }
}

TEST(ToYaml, TablesWithoutAGroupAreWritten) {
  RunConfig config = small_config();
  config.model.tables[0].group.clear();
  EXPECT_EQ(parse_config(to_yaml(config), "again.yaml"), small_config());
}

}  // namespace
}  // namespace dlrm
