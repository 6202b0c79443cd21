#include <cmath>

#include "sample_config.h"

namespace dlrm {
namespace {

/// A line of the table published by the authors of the synthetic models.
struct Published {
  const char* name;
  size_t tables;
  int64_t inputs;
  double lookups;
  double parameters;  // rounded to four digits
  double gib;         // rounded to one decimal
  int64_t embedding_width;
  int64_t mlp_input;
  int64_t mlp_parameters;
};

/// Elements of all tables.
double embedding_parameters(const ModelConfig& model) {
  double total = 0;
  for (const TableConfig& table : model.tables) {
    total += static_cast<double>(table.rows) * static_cast<double>(table.dim);
  }
  return total;
}

class SyntheticModel : public ::testing::TestWithParam<Published> {};

TEST_P(SyntheticModel, TheShapeIsThePublishedOne) {
  const Published& want = GetParam();
  const ModelConfig model =
      load_config(config_path(std::string("synthetic/") + want.name + ".yaml")).model;
  EXPECT_EQ(model.tables.size(), want.tables);
  EXPECT_EQ(model.num_features(), want.inputs);
  EXPECT_EQ(model.lookups_per_sample(), want.lookups);
  EXPECT_NEAR(embedding_parameters(model) / want.parameters, 1, 5e-4);
  EXPECT_NEAR(embedding_parameters(model) * 4 / 0x1p30, want.gib, 0.05);
  EXPECT_EQ(model.embedding_width(), want.embedding_width);
  EXPECT_EQ(model.interaction_width(), want.mlp_input);
  EXPECT_EQ(model.dense_parameters(), want.mlp_parameters);
}

INSTANTIATE_TEST_SUITE_P(
    All, SyntheticModel,
    ::testing::Values(
        Published{"tiny", 55, 58, 85, 1.124e9, 4.2, 672, 682, 207873},
        Published{"small", 107, 116, 377, 7.058e9, 26.3, 2512, 2522, 1456129},
        Published{"medium", 311, 337, 1611, 5.535e10, 206.2, 17280, 2494, 3244033},
        Published{"large", 612, 669, 6312, 2.077e11, 773.8, 36608, 4676, 12333057},
        Published{"jumbo", 1022, 1097, 16022, 8.347e11, 3109.5, 118400, 6120, 15290369},
        Published{"colossal", 2002, 2153, 47302, 5.993e12, 22327.4, 336768, 11726, 59179009}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(SyntheticModels, OptimizerAndBatchAreThoseOfThePublishedTimings) {
  for (const char* name : {"tiny", "small", "medium", "large", "jumbo", "colossal", "criteo"}) {
    const RunConfig config = load_config(config_path(std::string("synthetic/") + name + ".yaml"));
    EXPECT_EQ(config.train.global_batch_size, 65536) << name;
    EXPECT_EQ(config.data.source, DataKind::kSynthetic) << name;
    EXPECT_EQ(config.data.synthetic.alpha, 1.05) << name;
    EXPECT_EQ(std::get<ConcatConfig>(config.model.interaction).order, ConcatOrder::kDenseLast)
        << name;
    EXPECT_TRUE(config.model.bottom_mlp.empty()) << name;
    for (const OptimizerConfig& optimizer :
         {config.train.dense_optimizer, config.train.sparse_optimizer}) {
      EXPECT_EQ(optimizer.type, OptimizerRule::kAdagrad) << name;
      EXPECT_EQ(optimizer.lr, 0.001) << name;
      EXPECT_EQ(optimizer.initial_accumulator, 0.1) << name;
      EXPECT_EQ(optimizer.eps, 1e-7) << name;
    }
  }
}

TEST(SyntheticModels, CriteoHasTwentySixTablesOfOneShape) {
  const ModelConfig model = load_config(config_path("synthetic/criteo.yaml")).model;
  ASSERT_EQ(model.tables.size(), 26u);
  for (const TableConfig& table : model.tables) {
    EXPECT_EQ(table.rows, 100000);
    EXPECT_EQ(table.dim, 128);
  }
  EXPECT_EQ(model.interaction_width(), 26 * 128 + 13);
}

TEST(CriteoModels, KaggleHasTheRowsOfTheWholeDataSet) {
  const ModelConfig model = load_config(config_path("criteo_kaggle.yaml")).model;
  const std::vector<int64_t> rows{1460,  583,  10131227, 2202608, 305, 24,     12517,   633,   3,
                                  93145, 5683, 8351593,  3194,    27,  14992,  5461306, 10,    5652,
                                  2173,  4,    7046547,  18,      15,  286181, 105,     142572};
  ASSERT_EQ(model.tables.size(), rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(model.tables[i].rows, rows[i]);
    EXPECT_EQ(model.tables[i].name, fmt::format("C{}", i + 1));
    EXPECT_EQ(model.tables[i].features[0].name, model.tables[i].name);
  }
  EXPECT_EQ(model.interaction_width(), 16 + 27 * 26 / 2);
}

TEST(CriteoModels, KaggleWithADictionaryHasARowMoreInEachTable) {
  const ModelConfig plain = load_config(config_path("criteo_kaggle.yaml")).model;
  ModelConfig model = load_config(config_path("criteo_kaggle_dictionary.yaml")).model;
  for (TableConfig& table : model.tables) --table.rows;
  EXPECT_EQ(model, plain);
}

TEST(CriteoModels, EveryCopyOfKaggleHasItsTablesAndLayers) {
  const ModelConfig kaggle = load_config(config_path("criteo_kaggle.yaml")).model;
  for (const char* name : {"bench/kaggle.yaml", "single/cpu.yaml", "single/device.yaml"}) {
    const ModelConfig model = load_config(config_path(name)).model;
    EXPECT_EQ(model.bottom_mlp, kaggle.bottom_mlp) << name;
    EXPECT_EQ(model.top_mlp, kaggle.top_mlp) << name;
    ASSERT_EQ(model.tables.size(), kaggle.tables.size()) << name;
    for (size_t t = 0; t < kaggle.tables.size(); ++t) {
      EXPECT_EQ(model.tables[t].name, kaggle.tables[t].name) << name;
      EXPECT_EQ(model.tables[t].rows, kaggle.tables[t].rows) << name << " " << t;
      EXPECT_EQ(model.tables[t].dim, kaggle.tables[t].dim) << name << " " << t;
    }
  }
}

TEST(CriteoModels, MlperfDcnv2CrossesAWidthOf3456With214Lookups) {
  const ModelConfig model = load_config(config_path("mlperf_dcnv2.yaml")).model;
  EXPECT_EQ(model.interaction_width(), 3456);
  EXPECT_EQ(model.lookups_per_sample(), 214);
  const int64_t bottom = 14 * 512 + 513 * 256 + 257 * 128;
  const int64_t cross = 3 * (2 * 512 * 3456 + 3456);
  const int64_t top = 3457 * 1024 + 1025 * 1024 + 1025 * 512 + 513 * 256 + 257;
  EXPECT_EQ(model.dense_parameters(), bottom + cross + top);
}

TEST(CriteoModels, DeepLearningExamplesHaveThePublishedSizes) {
  const auto gib = [](const char* name) {
    return embedding_parameters(load_config(config_path(name)).model) * 4 / 0x1p30;
  };
  EXPECT_NEAR(gib("dle_4b.yaml"), 15.6, 0.05);
  EXPECT_NEAR(gib("dle_23b.yaml"), 84.9, 0.05);
  EXPECT_NEAR(gib("dle_113b.yaml"), 421, 0.5);
}

ModelConfig shape(const InteractionConfig& interaction) {
  ModelConfig model;
  model.dense_features = 5;
  model.top_mlp = {1};
  model.interaction = interaction;
  model.tables = {{"a", "a", 10, 5, DType::kFloat32, {{"a1"}, {"a2", 4}}},
                  {"b", "b", 7, 5, DType::kFloat32, {{"b"}}}};
  return model;
}

ConcatConfig pooled(int64_t window) { return {ConcatOrder::kDenseFirst, window}; }

TEST(ModelConfig, TheWidthOfDotIsTheDenseWidthAndAllPairs) {
  EXPECT_EQ(shape(DotConfig()).interaction_width(), 5 + 6);
}

TEST(ModelConfig, TheLastPoolingWindowOfConcatIsRoundedUp) {
  EXPECT_EQ(shape(pooled(0)).interaction_width(), 5 + 15);
  EXPECT_EQ(shape(pooled(1)).interaction_width(), 5 + 15);
  EXPECT_EQ(shape(pooled(4)).interaction_width(), 5 + 4);
  EXPECT_EQ(shape(pooled(15)).interaction_width(), 5 + 1);
}

TEST(ModelConfig, FmAddsOneColumnToAllVectors) {
  const ModelConfig model = shape(FmConfig());
  EXPECT_EQ(model.interaction_width(), 5 + 15 + 1);
  EXPECT_EQ(model.dense_parameters(), 22);
}

TEST(ModelConfig, TablesOfOtherWidthsAreProjectedByDotAndFm) {
  ModelConfig model = shape(DotConfig());
  EXPECT_TRUE(model.projected_features().empty());
  const int64_t plain = model.dense_parameters();
  model.tables[0].dim = 3;
  const auto features = static_cast<int64_t>(model.tables[0].features.size());
  EXPECT_EQ(model.projected_features().size(), 3u);
  EXPECT_EQ(model.interaction_inputs().embeddings, 15);
  EXPECT_EQ(model.dense_parameters(), plain + features * 5 * 3);
  model.interaction = ConcatConfig();
  EXPECT_TRUE(model.projected_features().empty());
  model.interaction = FmConfig();
  for (TableConfig& table : model.tables) table.dim = 3;
  model.dense_features = 0;
  model.bottom_mlp.clear();
  EXPECT_TRUE(model.projected_features().empty());
}

TEST(ModelConfig, CrossParametersAreBothFactorsAndTheBias) {
  const ModelConfig model = shape(CrossConfig{2, 3});
  EXPECT_EQ(model.interaction_width(), 20);
  EXPECT_EQ(model.dense_parameters(), 21 + 2 * (3 * 20 + 20 * 3 + 20));
}

TEST(ModelConfig, ACrossLayerOfFullRankHasOneSquareMatrix) {
  EXPECT_EQ(shape(CrossConfig{2, 0}).dense_parameters(), 21 + 2 * (20 * 20 + 20));
}

TEST(ModelConfig, TheRankOfCrossLayersFitsTheirWidth) {
  const auto rank = [](int64_t width) {
    return CrossConfig().rank_of({.dense = 0, .embeddings = width, .features = 1});
  };
  EXPECT_EQ(rank(177), 44);
  EXPECT_EQ(rank(3), 1);
  EXPECT_EQ(rank(100000), 512);
}

TEST(ModelConfig, ASharedTableCountsOnceInMemoryAndTwiceInWidth) {
  const ModelConfig model = shape(DotConfig());
  EXPECT_EQ(embedding_parameters(model), 85);
  EXPECT_EQ(model.num_features(), 3);
  EXPECT_EQ(model.embedding_width(), 15);
  EXPECT_EQ(model.lookups_per_sample(), 6);
}

TEST(SentTypes, GradientsThatAreBf16AnywayAreSentSo) {
  RunConfig config;
  config.model = shape(DotConfig());
  EXPECT_EQ(config.compute_type(), DType::kFloat32);
  EXPECT_EQ(config.sent_types(), WireConfig());
  config.train.precision = Precision::kBf16;
  config.train.wire.dense = DType::kBFloat16;
  EXPECT_EQ(config.compute_type(), DType::kBFloat16);
  WireConfig narrow = config.train.wire;
  narrow.backward = DType::kBFloat16;
  EXPECT_EQ(config.sent_types(), narrow);
  config.model.tables[0].features[0].pooling = Pooling::kMean;  // which divides them
  EXPECT_EQ(config.sent_types(), config.train.wire);
}

TEST(ScheduleConfig, TheFactorWarmsUpHoldsAndDecays) {
  const ScheduleConfig schedule{4, 10, 8, 2};
  EXPECT_EQ(schedule.factor(0), 0.25);
  EXPECT_EQ(schedule.factor(2), 0.75);
  EXPECT_EQ(schedule.factor(3), 1);
  EXPECT_EQ(schedule.factor(9), 1);
  EXPECT_EQ(schedule.factor(10), 1);
  EXPECT_EQ(schedule.factor(12), 0.5625);  // (1 - 2/8)^2
  EXPECT_EQ(schedule.factor(14), 0.25);
  EXPECT_EQ(schedule.factor(18), 0);
  EXPECT_EQ(schedule.factor(1000), 0);
}

/// Those of torch.optim.lr_scheduler.CosineAnnealingLR.
TEST(ScheduleConfig, ACosineFallsToItsFloor) {
  ScheduleConfig schedule{4, 10, 8};
  schedule.type = ScheduleType::kCosine;
  schedule.floor = 0.1;
  EXPECT_EQ(schedule.factor(0), 0.25);
  EXPECT_EQ(schedule.factor(9), 1);
  EXPECT_EQ(schedule.factor(10), 1);
  for (int64_t t = 10; t < 18; ++t) {
    const double turned = static_cast<double>(t - 10) / 8;
    EXPECT_NEAR(schedule.factor(t), 0.1 + 0.9 * (1 + std::cos(M_PI * turned)) / 2, 1e-15) << t;
  }
  EXPECT_NEAR(schedule.factor(14), 0.55, 1e-15);
  EXPECT_EQ(schedule.factor(18), 0.1);
  EXPECT_EQ(schedule.factor(100000), 0.1);
  schedule.decay_steps = 0;
  EXPECT_EQ(schedule.factor(100000), 1);
}

/// Those of torch.optim.lr_scheduler.StepLR.
TEST(ScheduleConfig, StepsMultiplyByTheFactor) {
  ScheduleConfig schedule;
  schedule.type = ScheduleType::kStep;
  schedule.every = 3;
  schedule.step_factor = 0.5;
  for (const auto& [t, factor] : {std::pair{0, 1.0}, {2, 1.0}, {3, 0.5}, {5, 0.5}, {6, 0.25}}) {
    EXPECT_EQ(schedule.factor(t), factor) << t;
  }
  EXPECT_EQ(schedule.factor(1000000), 0);
  schedule.warmup_steps = 4;
  schedule.decay_start = 10;
  for (const auto& [t, factor] : {std::pair{1, 0.5}, {4, 1.0}, {12, 1.0}, {13, 0.5}}) {
    EXPECT_EQ(schedule.factor(t), factor) << t;
  }
}

TEST(ScheduleConfig, WarmUpPrecedesADecayThatBeginsEarlier) {
  const ScheduleConfig schedule{4, 2, 4, 1};
  EXPECT_EQ(schedule.factor(3), 1);
  EXPECT_EQ(schedule.factor(4), 0.5);
}

}  // namespace
}  // namespace dlrm
