// Files with several labels.
#include <cmath>
#include <limits>

#include "dlrm/data/batch_source.h"
#include "dlrm/data/dataset_file.h"

#include "dataset_fixture.h"

namespace dlrm {
namespace {

constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

/// Label l of sample s.
float label_of(int64_t s, int64_t l) {
  if (l == 0) return static_cast<float>(s % 2);
  return (s + l) % 3 == 0 ? kMissing : static_cast<float>((s + l) % 3 - 1) * 0.5f;
}

/// Samples of one dense number, the sample's, and an id.
void write_labels(const std::string& path, int64_t samples, int64_t labels,
                  float (*value)(int64_t, int64_t) = label_of,
                  LabelType type = LabelType::kFloat32) {
  DatasetLayout layout;
  layout.dense = 1;
  layout.label = type;
  layout.labels = labels;
  layout.features = {{"one", 1, 50, IdType::kInt32}};
  DatasetWriter writer(path, layout);
  constexpr int64_t kBlock = 5000;  // so that blocks of checksums end within
  for (int64_t from = 0; from < samples; from += kBlock) {
    std::vector<float> all, dense;
    std::vector<int32_t> ids;
    for (int64_t s = from; s < std::min(samples, from + kBlock); ++s) {
      for (int64_t l = 0; l < labels; ++l) all.push_back(value(s, l));
      dense.push_back(static_cast<float>(s));
      ids.push_back(static_cast<int32_t>(s % 50));
    }
    DatasetBlock block{static_cast<int64_t>(dense.size()), all, dense, {}, {}};
    block.bags.resize(1);
    block.bags[0].ids = ids;
    writer.append(block);
  }
  writer.finish();
}

RunConfig config_for(const std::string& path, const std::vector<std::string>& tasks) {
  RunConfig config;
  config.model.dense_features = 1;
  TableConfig table;
  table.name = table.group = "one";
  table.rows = 50;
  table.dim = 4;
  table.features.push_back({"one", 1, Pooling::kSum});
  config.model.tables.push_back(table);
  for (const std::string& task : tasks) config.model.tasks.push_back({task, 1, {1}});
  config.data.train = {path};
  config.train.global_batch_size = 64;
  return config;
}

TEST(SeveralLabels, AreReadLabelByLabelWithThoseThatAreMissing) {
  const TemporaryFolder folder;
  const std::string path = folder / "labels.h5";
  write_labels(path, 20000, 3);
  EXPECT_EQ(DatasetFile(path).num_labels(), 3);
  EXPECT_EQ(DatasetFile(path).label_bytes(), 12);
  const RunConfig config = config_for(path, {"a", "b", "c"});
  for (const int world : {1, 3}) {
    for (int rank = 0; rank < world; ++rank) {
      const auto source = make_batch_source(config, Split::kTrain, rank, world);
      Batch batch;
      for (const int64_t t : {int64_t{0}, int64_t{7}, source->plan().batches_per_epoch() - 1}) {
        source->load(t, batch);
        const auto b = static_cast<size_t>(batch.size());
        ASSERT_EQ(batch.labels.size(), 3 * b);
        for (size_t k = 0; k < 3 * b; ++k) {
          const float label = batch.labels[k];
          const float expected =
              label_of(static_cast<int64_t>(batch.dense[k % b]), static_cast<int64_t>(k / b));
          ASSERT_TRUE(label == expected || (std::isnan(label) && std::isnan(expected)));
        }
      }
    }
  }
}

TEST(SeveralLabels, MayBeWholeNumbers) {
  const TemporaryFolder folder;
  const std::string path = folder / "labels.h5";
  const auto value = [](int64_t s, int64_t l) { return static_cast<float>((s + l) % 2); };
  write_labels(path, 20, 2, value, LabelType::kUint8);
  Batch batch;
  RunConfig config = config_for(path, {"a", "b"});
  config.data.shuffle = false;
  make_batch_source(config, Split::kTrain, 0, 1)->load(0, batch);
  for (int64_t k = 0; k < 40; ++k) {
    EXPECT_EQ(batch.labels[static_cast<size_t>(k)], value(k % 20, k / 20));
  }
}

TEST(SeveralLabels, MustBeAsManyAsTheTasks) {
  const TemporaryFolder folder;
  const std::string two = folder / "two.h5", one = folder / "one.h5";
  write_labels(two, 5, 2);
  write_labels(one, 5, 1);
  const auto error = [](const RunConfig& config) {
    return usage_error_of([&] { make_batch_source(config, Split::kTrain, 0, 1); });
  };
  EXPECT_EQ(error(config_for(two, {})),
            two +
                ": /label has 2 labels a sample, and the model 1: needs model.tasks with a task "
                "for each");
  EXPECT_EQ(error(config_for(one, {"a", "b"})),
            one +
                ": /label has 1 label a sample, and the model 2: needs model.tasks to be left "
                "out");
  RunConfig both = config_for(two, {"a", "b"});
  both.data.train.push_back(one);
  EXPECT_EQ(error(both),
            two + " and " + one + " do not belong together: the number of labels differs");
}

TEST(SeveralLabels, OutsideZeroToOneAreErrorsThatNameTheTask) {
  const TemporaryFolder folder;
  const std::string path = folder / "bad.h5";
  write_labels(path, 10, 2, [](int64_t s, int64_t l) { return s == 7 && l == 1 ? 2.0f : 0.0f; });
  const auto source = make_batch_source(config_for(path, {"click", "buy"}), Split::kTrain, 0, 1);
  Batch batch;
  EXPECT_EQ(usage_error_of([&] { source->load(0, batch); }),
            path +
                ": record 7 (counted from 0): label 2 of task buy; labels are 0, 1 or between, "
                "or NaN if missing");
}

TEST(OneLabel, MustNotBeMissing) {
  const TemporaryFolder folder;
  const std::string path = folder / "bad.h5";
  write_labels(path, 10, 1, [](int64_t s, int64_t) { return s == 3 ? kMissing : 0.0f; });
  const auto source = make_batch_source(config_for(path, {}), Split::kTrain, 0, 1);
  Batch batch;
  EXPECT_EQ(usage_error_of([&] { source->load(0, batch); }),
            path + ": record 3 (counted from 0): label nan; labels are 0, 1 or between");
}

TEST(SyntheticLabels, OfEachTaskAreDrawnOnTheirOwn) {
  RunConfig config = config_for("", {"a", "b"});
  config.data.source = DataKind::kSynthetic;
  config.data.synthetic.samples = 4000;
  config.train.global_batch_size = 4000;
  Batch two, first;
  make_batch_source(config, Split::kTrain, 0, 1)->load(0, two);
  ASSERT_EQ(two.labels.size(), 8000u);
  int both = 0;
  for (size_t i = 0; i < 4000; ++i) both += two.labels[i] == 1 && two.labels[4000 + i] == 1;
  EXPECT_NEAR(both, 1000, 150);
  // A task keeps its labels whatever the others are.
  config.model.tasks = {{"b", 1, {1}}, {"c", 1, {1}}};
  make_batch_source(config, Split::kTrain, 0, 1)->load(0, first);
  EXPECT_TRUE(std::equal(two.labels.begin() + 4000, two.labels.end(), first.labels.begin()));
}

}  // namespace
}  // namespace dlrm
