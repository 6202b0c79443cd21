// The memory that a training rank takes for its vectors, compared with what the plan says.
#include <gtest/gtest.h>

#include "dlrm/device/device.h"

#include "small_run.h"

namespace dlrm {
namespace {

struct Model {
  const char* name;
  InteractionConfig interaction;
  Precision precision = Precision::kFp32;
  Strategy strategy = Strategy::kTable;
  int ranks = 2;
  bool linear = false;
};
void PrintTo(const Model& model, std::ostream* out) { *out << model.name; }

/// Four ids in each bag, and eight of a batch for each row. Of cut rows both halves return all
/// bags.
Batch even_batch(const RunConfig& config, int64_t t, int rank, int world) {
  Batch batch;
  batch.t = t;
  batch.global_size = config.train.global_batch_size;
  batch.local = part_of(batch.global_size, rank, world);
  const int64_t samples = batch.local.size();
  batch.dense.resize(static_cast<size_t>(samples * config.model.dense_features), 0.5f);
  batch.labels.resize(static_cast<size_t>(samples * config.model.num_labels()), 1.0f);
  batch.offsets = {0};
  for (const TableConfig& table : config.model.tables) {
    for (int64_t s = batch.local.begin; s < batch.local.end; ++s) {
      for (int64_t i = 0; i < 4; ++i) batch.ids.push_back((7 * s + 61 * i + t) % table.rows);
      batch.offsets.push_back(static_cast<int64_t>(batch.ids.size()));
    }
  }
  return batch;
}

class PlannedMemory : public ::testing::TestWithParam<std::tuple<Model, DeviceKind>> {
 protected:
  static const Model& model() { return std::get<0>(GetParam()); }

  static RunConfig config_of(int64_t width) {
    RunConfig config;
    config.model.interaction = model().interaction;
    config.model.dense_features = 5;
    config.model.bottom_mlp = {width};
    config.model.top_mlp = {8, 1};
    for (const char* name : {"a", "b", "c", "d"}) {
      TableConfig table;
      table.name = table.group = name;
      table.rows = 256;
      table.dim = width;
      table.features.push_back({name, 4, Pooling::kSum});
      config.model.tables.push_back(table);
    }
    config.model.linear = model().linear;
    config.model.add_linear_tables();
    config.train.global_batch_size = 512;
    config.train.precision = model().precision;
    config.sharding.strategy = model().strategy;
    config.device = std::get<1>(GetParam());
    return config;
  }

  /// Of rank 0's device.
  static double planned(const RunConfig& config) {
    return rank_memory(config, make_plan(config, model().ranks))[0].total();
  }
  static double taken(const RunConfig& config) {
    const Trained trained = train_on_batches(config, model().ranks, 2, even_batch);
    return static_cast<double>(trained.memory.back().first);
  }
};

/// Bytes that do not depend on the width of vectors are left out, of which the plan has bounds.
TEST_P(PlannedMemory, GrowsWithTheVectorsOfATrainingRank) {
  const bool on_gpu = std::get<1>(GetParam()) == DeviceKind::kCuda;
  if (on_gpu && cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  const RunConfig narrow = config_of(32), wide = config_of(64);
  const double grows = planned(wide) - planned(narrow);
  const double grown = taken(wide) - taken(narrow);
  // The plan leaves out scratch of a CPU's products.
  const double tolerance = on_gpu ? 0.02 : 0.1;
  if (on_gpu || model().precision == Precision::kFp32) {
    EXPECT_NEAR(grown, grows, tolerance * grows);
  } else {  // a processor with bf16 products makes no copies in fp32, for which the plan has room
    EXPECT_LE(grown, (1 + tolerance) * grows);
    EXPECT_GE(grown, 0.6 * grows);
  }
}

/// Fewer models, since these layers do not depend on the rest.
class PlannedLayers : public PlannedMemory {};

/// The plan leaves out what fills cache lines, and may have more for the padding of rows.
TEST_P(PlannedLayers, CoverDropoutAndLayerNorms) {
  const bool on_gpu = std::get<1>(GetParam()) == DeviceKind::kCuda;
  if (on_gpu && cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  RunConfig plain = config_of(64);
  plain.model.bottom_mlp = {192, 128, 64};
  RunConfig regularised = plain;
  regularised.model.dropout = {0.5, 0.5};
  regularised.model.layer_norm = {true, true};
  const double more = planned(regularised) - planned(plain);
  const double taken_more = taken(regularised) - taken(plain);
  EXPECT_LE(taken_more, 1.01 * more);
  EXPECT_GE(taken_more, 0.7 * more);
}

TEST_P(PlannedLayers, CoverTheTowersAndExpertsOfTasks) {
  const bool on_gpu = std::get<1>(GetParam()) == DeviceKind::kCuda;
  if (on_gpu && cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  RunConfig one = config_of(64);
  one.model.top_mlp = {96, 1};
  RunConfig several = one;
  several.model.tasks = {{"a", 1, {96, 1}}, {"b", 1, {128, 64, 1}}, {"c", 1, {192, 1}}};
  for (const int64_t experts : {0, 3}) {
    if (experts > 0) several.model.experts = {experts, {160, 96}};
    const double more = planned(several) - planned(one);
    const double taken_more = taken(several) - taken(one);
    // The plan leaves out scratch of a CPU's products.
    EXPECT_LE(taken_more, (on_gpu ? 1.01 : 1.1) * more) << experts;
    EXPECT_GE(taken_more, 0.7 * more) << experts;
  }
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<Model, DeviceKind>>& of) {
  const bool on_cpu = std::get<1>(of.param) == DeviceKind::kCpu;
  return std::string(std::get<0>(of.param).name) + (on_cpu ? "_on_a_cpu" : "_on_a_gpu");
}
const auto kDevices = ::testing::Values(DeviceKind::kCpu, DeviceKind::kCuda);

INSTANTIATE_TEST_SUITE_P(
    Models, PlannedMemory,
    ::testing::Combine(
        ::testing::Values(
            Model{"cross", CrossConfig{1, 4}}, Model{"full_cross", CrossConfig{2, 0}},
            Model{"concat", ConcatConfig()},
            Model{"one_rank", ConcatConfig(), Precision::kFp32, Strategy::kTable, 1},
            Model{"linear", ConcatConfig(), Precision::kFp32, Strategy::kTable, 2, true},
            Model{"bf16", DotConfig(), Precision::kBf16},
            Model{"bf16_one_rank", DotConfig(), Precision::kBf16, Strategy::kTable, 1},
            Model{"bf16_cut_rows", DotConfig(), Precision::kBf16, Strategy::kRow}),
        kDevices),
    name_of);
INSTANTIATE_TEST_SUITE_P(
    Models, PlannedLayers,
    ::testing::Combine(::testing::Values(Model{"one_rank", ConcatConfig(), Precision::kFp32,
                                               Strategy::kTable, 1},
                                         Model{"bf16", DotConfig(), Precision::kBf16}),
                       kDevices),
    name_of);

}  // namespace
}  // namespace dlrm
