#include "serve/trained_model.h"

#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "dlrm/core/error.h"

#include "error_of.h"
#include "saved_model.h"
#include "train/checkpoint_tensors.h"
#include "train/small_run.h"

namespace dlrm::serve {
namespace {

using dlrm::testing::TemporaryFolder;

std::vector<float> predictions(TrainedModel& model, const Samples& samples) {
  std::vector<float> p(static_cast<size_t>(samples.size) * model.inputs().labels());
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
    {"tasks",
     [](RunConfig& c) {
       c.model.tasks = {{"click", 1, {7, 1}}, {"buy", 0.5, {9, 4, 1}}};
     }},
    {"tasks_with_a_linear_part",
     [](RunConfig& c) {
       c.model.tasks = {{"click", 1, {7, 1}}, {"buy", 0.5, {1}}};
       c.model.tables[1].features[0].weights = true;
       c = with_linear(c);
     }},
    {"concat", averaged},
    {"dense_last", concat_dense_last},
    {"cross",
     [](RunConfig& c) {
       c.model.interaction = CrossConfig{2, 3};
     }},
    {"weighted",
     [](RunConfig& c) {
       for (TableConfig& table : c.model.tables) {
         for (FeatureConfig& feature : table.features) feature.pooling = Pooling::kSum;
         table.features[0].weights = true;
       }
     }},
    {"max",
     [](RunConfig& c) {
       c.sharding.tables.erase("shared");  // whose rows are cut
       for (TableConfig& table : c.model.tables) table.features.back().pooling = Pooling::kMax;
     }},
    {"fm", [](RunConfig& c) { c.model.interaction = FmConfig(); }},
    {"no_bottom",
     [](RunConfig& c) {
       c.model.bottom_mlp.clear();
       c.model.interaction = ConcatConfig();
     }},
    {"sigmoid", [](RunConfig& c) { c.model.activation = Activation::kSigmoid; }},
    {"layer_norm_and_dropout",
     [](RunConfig& c) {
       c.model.layer_norm = {true, true};
       c.model.dropout = {0.2, 0.3};
     }},
    {"bf16_tables",
     [](RunConfig& c) {
       for (TableConfig& table : c.model.tables) table.dtype = DType::kBFloat16;
     }},
    {"linear",
     [](RunConfig& c) {
       c.model.interaction = FmConfig();
       c = with_linear(c);
     }},
    {"linear_without_dense_features",
     [](RunConfig& c) {
       c = odd_model_of_ids();
       c.model.interaction = ConcatConfig();
       c = with_linear(c);
     }},
    {"adam", [](RunConfig& c) { c.train.dense_optimizer.type = OptimizerRule::kAdam; }},
};

class EveryModel : public ::testing::TestWithParam<Variant> {};

TEST_P(EveryModel, PredictsWhatTheTrainerPredictsWithEveryTypeOfTables) {
  const TemporaryFolder folder;
  RunConfig config = odd_model();
  GetParam().change(config);
  const Evaluated evaluated = save_model(config, folder.path());
  const auto predicted = [&](TableType tables, int64_t batch_size, int threads) {
    LoadOptions options;
    options.tables = tables;
    options.batch_size = batch_size;
    options.threads = threads;
    TrainedModel model(folder_of(folder.path()), options);
    EXPECT_EQ(model.step(), 3);
    return predictions(model, evaluated.samples);
  };
  const auto difference = [&](const std::vector<float>& p) {
    return largest_difference(p, evaluated.probabilities);
  };
  // Several batches, the last one smaller, and one.
  EXPECT_LE(difference(predicted(TableType::kAsTrained, 5, 1)), 1e-6);
  EXPECT_LE(difference(predicted(TableType::kFp32, 1000, 2)), 1e-6);
  EXPECT_EQ(predicted(TableType::kMapped, 5, 1), predicted(TableType::kFp32, 5, 1));
  for (const TableType smaller : {TableType::kBf16, TableType::kInt8}) {
    const double found = difference(predicted(smaller, 5, 1));
    EXPECT_LE(found, 4e-3);
    const bool exact =
        config.model.tables[0].dtype == DType::kBFloat16 && smaller == TableType::kBf16;
    EXPECT_EQ(found < 1e-6, exact);
  }
}

/// Three samples in turn have the bags of one, four times as long, but for each third feature. A
/// weight of each fifth sample is another.
Samples with_shared_bags(const Samples& all, size_t features) {
  Samples samples = all;
  samples.ids.clear();
  samples.weights.clear();
  samples.offsets.assign(1, 0);
  for (size_t s = 0; s < static_cast<size_t>(all.size); ++s) {
    for (size_t f = 0; f < features; ++f) {
      const int64_t* const bag = all.offsets.data() + (f % 3 == 2 ? s : s / 3) * features + f;
      for (int64_t k = 4 * bag[0]; k < 4 * bag[1]; ++k) {
        const int64_t from = bag[0] + k % (bag[1] - bag[0]);
        samples.ids.push_back(all.ids[static_cast<size_t>(from)]);
        if (all.weights.empty()) continue;
        samples.weights.push_back(all.weights[static_cast<size_t>(from)]);
        if (s % 5 == 0 && k + 1 == 4 * bag[1]) samples.weights.back() *= -1;
      }
      samples.offsets.push_back(static_cast<int64_t>(samples.ids.size()));
    }
  }
  return samples;
}

Samples one_of(const Samples& all, int64_t s, int64_t features) {
  Samples one;
  one.size = 1;
  const int64_t dense = std::ssize(all.dense) / all.size;
  one.dense.assign(all.dense.begin() + s * dense, all.dense.begin() + (s + 1) * dense);
  const int64_t* const bags = all.offsets.data() + s * features;
  one.ids.assign(all.ids.begin() + bags[0], all.ids.begin() + bags[features]);
  if (!all.weights.empty()) {
    one.weights.assign(all.weights.begin() + bags[0], all.weights.begin() + bags[features]);
  }
  for (int64_t f = 1; f <= features; ++f) one.offsets.push_back(bags[f] - bags[0]);
  return one;
}

TEST_P(EveryModel, PredictsSamplesThatShareBagsAsEachAlone) {
  const TemporaryFolder folder;
  RunConfig config = odd_model();
  GetParam().change(config);
  const Evaluated evaluated = save_model(config, folder.path());
  for (const TableType type : {TableType::kAsTrained, TableType::kInt8}) {
    LoadOptions options;
    options.tables = type;
    options.batch_size = 7;
    TrainedModel model(folder_of(folder.path()), options);
    const size_t features = model.inputs().features.size();
    const Samples samples = with_shared_bags(evaluated.samples, features);
    std::vector<float> alone;
    for (int64_t s = 0; s < samples.size; ++s) {
      const auto p = predictions(model, one_of(samples, s, static_cast<int64_t>(features)));
      alone.insert(alone.end(), p.begin(), p.end());
    }
    EXPECT_LE(largest_difference(predictions(model, samples), alone), 1e-6);
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

TEST(TrainedModel, MappedTablesMayBeCut) {
  for (const Strategy strategy : {Strategy::kTable, Strategy::kRow, Strategy::kColumn}) {
    const TemporaryFolder folder;
    RunConfig config = odd_model();
    shard_by(config, strategy);
    const Evaluated evaluated = save_model(config, folder.path());
    LoadOptions options;
    options.tables = TableType::kMapped;
    TrainedModel model(folder_of(folder.path()), options);
    EXPECT_LE(largest_difference(predictions(model, evaluated.samples), evaluated.probabilities),
              1e-6);
    if (strategy == Strategy::kTable) {
      EXPECT_EQ(model.table_bytes(), 0);
    }
  }
}

TEST(TrainedModel, SmallerTypesOfTablesTakeLessMemory) {
  const TemporaryFolder folder;
  save_model(odd_model(), folder.path());
  int64_t before = INT64_MAX;
  for (const TableType type : {TableType::kFp32, TableType::kBf16, TableType::kInt8}) {
    LoadOptions options;
    options.tables = type;
    const int64_t bytes = TrainedModel(folder_of(folder.path()), options).table_bytes();
    EXPECT_LT(bytes, before);
    before = bytes;
  }
}

TEST(TrainedModel, SeveralThreadsFillTablesWithTheSameRows) {
  const TemporaryFolder folder;
  RunConfig config = odd_model();
  config.model.tables[3].rows = 20011;
  save_model(config, folder.path());
  Samples rows;  // each has one row of the table
  rows.size = config.model.tables[3].rows;
  rows.dense.assign(static_cast<size_t>(rows.size * config.model.dense_features), 0.25f);
  for (int64_t s = 0; s < rows.size; ++s) {
    rows.ids.push_back(s);
    for (const int64_t end : {s, s, s, s, s + 1, s + 1}) rows.offsets.push_back(end);
  }
  for (const TableType type : {TableType::kFp32, TableType::kBf16, TableType::kInt8}) {
    LoadOptions options;
    options.tables = type;
    TrainedModel one(folder_of(folder.path()), options);
    options.threads = options.batches = 3;  // each computes on one thread
    TrainedModel three(folder_of(folder.path()), options);
    EXPECT_EQ(predictions(one, rows), predictions(three, rows));
  }
}

/// Requests are few while threads are many, so that a batch for all threads would be small for
/// each.
TEST(TrainedModel, RequestsShareThreadsByTheSizeOfTheirBatches) {
  for (const int threads : {1, 2, 6, 7, 8, 33, 64}) {
    for (const int64_t samples : {1, 64, 256, 1 << 20}) {
      LoadOptions all;
      all.threads = threads;
      all.batch_size = samples;
      const LoadOptions shared = all.for_requests();
      EXPECT_EQ(shared.batch_size, samples);
      EXPECT_EQ(shared.threads, threads);
      const int64_t most = std::max<int64_t>(samples / 64, 1);  // threads of a batch
      EXPECT_GE(shared.batches * most, threads);
      EXPECT_LT((shared.batches - 1) * most, threads);
    }
  }
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
  EXPECT_NE(usage_error_of([&] { TrainedModel model(folder_of(folder.path()), {}); }), "");
}

TEST(TrainedModel, AMissingFolderIsAUsageError) {
  EXPECT_NE(usage_error_of([&] { TrainedModel model("absent/step_000000001", {}); }), "");
}

}  // namespace
}  // namespace dlrm::serve
