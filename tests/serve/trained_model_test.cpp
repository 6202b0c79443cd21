#include "serve/trained_model.h"

#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "dlrm/core/error.h"

#include "saved_model.h"
#include "train/checkpoint_tensors.h"
#include "train/small_run.h"

namespace dlrm::serve {
namespace {

using dlrm::testing::TemporaryFolder;

std::vector<float> predictions(TrainedModel& model, const Samples& samples) {
  std::vector<float> p(static_cast<size_t>(samples.size));
  model.predict(samples, p);
  return p;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    EXPECT_FALSE(std::isnan(a[i])) << "sample " << i;
  }
  return most;
}

/// Each changes the small model in one way.
struct Variant {
  const char* name;
  void (*change)(RunConfig&);
};

void concat_dense_last(RunConfig& config) {
  config.model.interaction = ConcatConfig{ConcatOrder::kDenseLast, 0};
}
void averaged(RunConfig& config) {
  config.model.interaction = ConcatConfig{ConcatOrder::kDenseFirst, 4};
}

const Variant kVariants[] = {
    {"dot", [](RunConfig&) {}},
    {"concat", averaged},
    {"dense_last", concat_dense_last},
    {"cross",
     [](RunConfig& c) {
       c.model.interaction = CrossConfig{2, 3};
     }},
    {"fm", [](RunConfig& c) { c.model.interaction = FmConfig(); }},
    {"no_bottom",
     [](RunConfig& c) {
       c.model.bottom_mlp.clear();
       c.model.interaction = ConcatConfig();
     }},
    {"sigmoid", [](RunConfig& c) { c.model.activation = Activation::kSigmoid; }},
    {"bf16_tables",
     [](RunConfig& c) {
       for (TableConfig& table : c.model.tables) table.dtype = DType::kBFloat16;
     }},
    {"adam", [](RunConfig& c) { c.train.dense_optimizer.type = OptimizerRule::kAdam; }},
};

class EveryModel : public ::testing::TestWithParam<Variant> {};

TEST_P(EveryModel, PredictsWhatTheTrainerPredicts) {
  const TemporaryFolder folder;
  RunConfig config = odd_model();
  GetParam().change(config);
  const Evaluated evaluated = save_model(config, folder.path());
  LoadOptions options;
  options.batch_size = 5;  // several batches, the last one smaller
  TrainedModel model(folder_of(folder.path()), options);
  EXPECT_EQ(model.step(), 3);
  EXPECT_LE(largest_difference(predictions(model, evaluated.samples), evaluated.probabilities),
            1e-6);
  options.batch_size = 1000;
  options.threads = 2;
  options.tables = TableType::kFp32;
  TrainedModel whole(folder_of(folder.path()), options);
  EXPECT_LE(largest_difference(predictions(whole, evaluated.samples), evaluated.probabilities),
            1e-6);
}

TEST_P(EveryModel, MappedRowsPredictBitwiseAsCopiedOnes) {
  const TemporaryFolder folder;
  RunConfig config = odd_model();
  GetParam().change(config);
  const Evaluated evaluated = save_model(config, folder.path());
  LoadOptions options;
  options.batch_size = 5;
  options.tables = TableType::kFp32;
  TrainedModel copied(folder_of(folder.path()), options);
  options.tables = TableType::kMapped;
  TrainedModel mapped(folder_of(folder.path()), options);
  EXPECT_EQ(predictions(mapped, evaluated.samples), predictions(copied, evaluated.samples));
}

TEST_P(EveryModel, SmallerTypesOfTablesStayNear) {
  const TemporaryFolder folder;
  RunConfig config = odd_model();
  GetParam().change(config);
  const Evaluated evaluated = save_model(config, folder.path());
  LoadOptions options;
  for (const auto& [type, near] : {std::pair(TableType::kBf16, 4e-3), {TableType::kInt8, 4e-3}}) {
    options.tables = type;
    TrainedModel model(folder_of(folder.path()), options);
    const double difference =
        largest_difference(predictions(model, evaluated.samples), evaluated.probabilities);
    EXPECT_LE(difference, near);
    const bool exact = config.model.tables[0].dtype == DType::kBFloat16 && type == TableType::kBf16;
    EXPECT_EQ(difference < 1e-6, exact);
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, EveryModel, ::testing::ValuesIn(kVariants),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(TrainedModel, Bf16TrainingPredictsInBf16) {
  const TemporaryFolder folder;
  RunConfig config = odd_model();
  config.train.precision = Precision::kBf16;
  const Evaluated evaluated = save_model(config, folder.path());
  TrainedModel model(folder_of(folder.path()), {});
  EXPECT_LE(largest_difference(predictions(model, evaluated.samples), evaluated.probabilities),
            1e-6);
}

TEST(TrainedModel, EmptyBagsAndNoSamples) {
  const TemporaryFolder folder;
  const RunConfig config = odd_model();
  save_model(config, folder.path());
  Samples empty;
  empty.size = 1;
  empty.dense.assign(5, 0.25f);
  empty.offsets.assign(7, 0);
  std::vector<float> last;
  for (const TableType type : {TableType::kFp32, TableType::kBf16, TableType::kInt8}) {
    LoadOptions options;
    options.tables = type;
    TrainedModel model(folder_of(folder.path()), options);
    EXPECT_TRUE(predictions(model, {}).empty());
    // Without ids the type of the tables does not matter.
    const std::vector<float> p = predictions(model, empty);
    ASSERT_EQ(p.size(), 1u);
    if (!last.empty()) {
      EXPECT_EQ(p, last);
    }
    last = p;
  }
}

TEST(TrainedModel, InputsAreThoseOfTheConfig) {
  const TemporaryFolder folder;
  save_model(odd_model(), folder.path());
  TrainedModel model(folder_of(folder.path()), {});
  const Inputs& inputs = model.inputs();
  EXPECT_EQ(inputs.dense, 5);
  ASSERT_EQ(inputs.features.size(), 6u);
  EXPECT_EQ(inputs.features[3].name, "right");
  EXPECT_EQ(inputs.features[3].rows, 53);
  EXPECT_EQ(inputs.number.at("right"), 3);
}

TEST(TrainedModel, MemoryOfTables) {
  const TemporaryFolder folder;
  save_model(odd_model(), folder.path());
  const auto bytes = [&](TableType type) {
    LoadOptions options;
    options.tables = type;
    return TrainedModel(folder_of(folder.path()), options).table_bytes();
  };
  const int64_t rows = 1 + 3 + 53 + 101 + 29;
  EXPECT_EQ(bytes(TableType::kAsTrained), rows * 32);  // rows of 6 floats are padded to 8
  EXPECT_EQ(bytes(TableType::kFp32), rows * 32);
  EXPECT_EQ(bytes(TableType::kBf16), rows * 16);
  EXPECT_EQ(bytes(TableType::kInt8), rows * 12);
}

TEST(TrainedModel, TablesThatAreCutAreCopiedAndNotMapped) {
  const auto table_bytes = [](Strategy strategy) {
    const TemporaryFolder folder;
    RunConfig config = odd_model();
    shard_by(config, strategy);
    const Evaluated evaluated = save_model(config, folder.path());
    LoadOptions options;
    options.tables = TableType::kMapped;
    TrainedModel model(folder_of(folder.path()), options);
    EXPECT_LE(largest_difference(predictions(model, evaluated.samples), evaluated.probabilities),
              1e-6);
    return model.table_bytes();
  };
  EXPECT_EQ(table_bytes(Strategy::kTable), 0);
  EXPECT_EQ(table_bytes(Strategy::kRow), (3 + 53 + 101 + 29) * 32);  // one row cannot be cut
  EXPECT_GT(table_bytes(Strategy::kColumn), 0);
}

TEST(TrainedModel, MappedRowsMayBeRemovedButNotCutShort) {
  const TemporaryFolder folder;
  RunConfig config = odd_model();
  config.model.tables[3].rows = 5000;  // more than a page
  const Evaluated evaluated = save_model(config, folder.path());
  const std::string checkpoint = folder_of(folder.path());
  LoadOptions options;
  options.tables = TableType::kMapped;
  TrainedModel model(checkpoint, options);
  const std::vector<float> before = predictions(model, evaluated.samples);
  std::filesystem::rename(checkpoint, folder.path() + "/elsewhere");
  EXPECT_EQ(predictions(model, evaluated.samples), before);
  for (const char* part : {"/elsewhere/rank_00000.h5", "/elsewhere/rank_00001.h5"}) {
    std::filesystem::resize_file(folder.path() + part, 0);
  }
  EXPECT_THROW(predictions(model, evaluated.samples), Error);
}

TEST(TrainedModel, ATruncatedFileIsAUsageError) {
  const TemporaryFolder folder;
  save_model(odd_model(), folder.path());
  const std::string part = folder_of(folder.path()) + "/rank_00001.h5";
  std::filesystem::resize_file(part, std::filesystem::file_size(part) - 1);
  try {
    TrainedModel model(folder_of(folder.path()), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
  }
}

TEST(TrainedModel, AMissingFolderIsAUsageError) {
  try {
    TrainedModel model("absent/step_000000001", {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
  }
}

}  // namespace
}  // namespace dlrm::serve
