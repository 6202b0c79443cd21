#include <algorithm>

#include <gtest/gtest.h>

#include "dlrm/data/batch_source.h"
#include "dlrm/data/dataset_file.h"

#include "dataset_fixture.h"

namespace dlrm {
namespace {

/// Checks every value of a batch against the sample number that its first dense value gives, and
/// returns those numbers.
std::vector<int64_t> check_and_list(const SmallDataset& data, const Batch& batch) {
  const auto b = static_cast<size_t>(batch.size());
  std::vector<int64_t> samples;
  EXPECT_EQ(batch.labels.size(), b);
  EXPECT_EQ(batch.offsets.size(), 3 * b + 1);
  EXPECT_EQ(batch.offsets[0], 0);
  EXPECT_EQ(batch.offsets.back(), static_cast<int64_t>(batch.ids.size()));
  for (size_t i = 0; i < b; ++i) {
    const auto s = static_cast<int64_t>(batch.dense[i * 2]);
    samples.push_back(s);
    EXPECT_EQ(batch.dense[i * 2 + 1], -static_cast<float>(s));
    EXPECT_EQ(batch.labels[i], static_cast<float>(s % 2));
    const auto bag = [&](size_t feature) {
      const auto at = feature * b + i;
      return std::vector<int64_t>(batch.ids.begin() + batch.offsets[at],
                                  batch.ids.begin() + batch.offsets[at + 1]);
    };
    std::vector<int64_t> bags;
    for (int64_t k = 0; k < s % 4; ++k) bags.push_back((s + k) % data.rows_bags);
    EXPECT_EQ(bag(0), bags);
    EXPECT_EQ(bag(1), (std::vector<int64_t>{s % data.rows_one}));
    EXPECT_EQ(bag(2), (std::vector<int64_t>{s * 3 % data.rows_three, (s * 3 + 1) % data.rows_three,
                                            (s * 3 + 2) % data.rows_three}));
  }
  return samples;
}

auto samples_of_batches(const SmallDataset& data, const RunConfig& config, int64_t from, int64_t to,
                        int world) {
  std::vector<std::vector<int64_t>> batches(static_cast<size_t>(to - from));
  Batch batch;
  for (int rank = 0; rank < world; ++rank) {
    const auto source = make_batch_source(config, Split::kTrain, rank, world);
    for (int64_t t = from; t < to; ++t) {
      source->load(t, batch);
      EXPECT_EQ(batch.t, t);
      EXPECT_EQ(batch.local, part_of(batch.global_size, rank, world));
      auto& samples = batches[static_cast<size_t>(t - from)];
      for (const int64_t s : check_and_list(data, batch)) samples.push_back(s);
      EXPECT_TRUE(rank + 1 < world || static_cast<int64_t>(samples.size()) == batch.global_size);
    }
  }
  return batches;
}

std::vector<int64_t> samples_of_batch(const SmallDataset& data, const RunConfig& config, int64_t t,
                                      int world) {
  return samples_of_batches(data, config, t, t + 1, world)[0];
}

TEST(Hdf5Source, AnEpochHoldsEverySampleOnceForAnyWorld) {
  const TemporaryFolder folder;
  SmallDataset data;
  data.samples = 103;
  data.write(folder / "a.h5");
  for (const bool shuffle : {false, true}) {
    RunConfig config = data.config(folder / "a.h5", 20);
    config.data.shuffle = shuffle;
    std::vector<int64_t> alone;
    for (const int world : {1, 2, 3, 5, 31}) {
      std::vector<int64_t> epoch;
      for (const auto& batch : samples_of_batches(data, config, 0, 6, world)) {
        EXPECT_EQ(batch.size(), epoch.size() < 100 ? 20u : 3u);
        epoch.insert(epoch.end(), batch.begin(), batch.end());
      }
      if (world == 1) alone = epoch;
      EXPECT_EQ(epoch, alone);
    }
    std::sort(alone.begin(), alone.end());
    for (size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(alone[i], static_cast<int64_t>(i));
  }
}

TEST(Hdf5Source, TheNextEpochHasAnotherOrder) {
  const TemporaryFolder folder;
  SmallDataset data;
  data.samples = 41;
  data.write(folder / "a.h5");
  RunConfig config = data.config(folder / "a.h5", 10);
  const auto source = make_batch_source(config, Split::kTrain, 0, 1);
  EXPECT_EQ(source->plan().batches_per_epoch(), 5);
  Batch batch;
  source->load(7, batch);
  EXPECT_EQ(batch.epoch, 1);
  EXPECT_NE(samples_of_batch(data, config, 0, 1), samples_of_batch(data, config, 5, 1));
  config.data.shuffle = false;
  EXPECT_EQ(samples_of_batch(data, config, 0, 1), samples_of_batch(data, config, 5, 1));
}

TEST(Hdf5Source, TheTestSplitIsNeverShuffledAndMayBeAbsent) {
  const TemporaryFolder folder;
  const SmallDataset data;
  data.write(folder / "a.h5");
  RunConfig config = data.config(folder / "a.h5", 10);
  EXPECT_EQ(make_batch_source(config, Split::kTest, 0, 1), nullptr);
  config.data.test = {folder / "a.h5"};
  Batch batch;
  make_batch_source(config, Split::kTest, 0, 1)->load(0, batch);
  EXPECT_EQ(check_and_list(data, batch), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(Hdf5Source, AFolderIsTheSequenceOfItsFiles) {
  const TemporaryFolder folder;
  SmallDataset data;
  const std::vector<int64_t> sizes{5, 0, 1, 9};
  for (size_t f = 0; f < sizes.size(); ++f) {
    data.samples = sizes[f];
    data.write(folder / ("part" + std::to_string(f) + ".h5"));
    data.first += sizes[f];
  }
  RunConfig config = data.config(folder.path(), 4);
  config.data.shuffle = false;
  std::vector<int64_t> epoch;
  for (int64_t t = 0; t < 4; ++t) {
    for (const int64_t s : samples_of_batch(data, config, t, 2)) epoch.push_back(s);
  }
  EXPECT_EQ(epoch, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}));
}

TEST(Hdf5Source, FilesOfAFolderHaveTheSameColumns) {
  /// Layouts that differ from the first one in one thing each.
  const auto layout = [](LabelType label, const std::vector<FeatureColumn>& features) {
    DatasetLayout made;
    made.dense = 1;
    made.label = label;
    made.features = features;
    made.samples = 0;
    return made;
  };
  const FeatureColumn e{"e", 3, 9, IdType::kInt64}, f{"f", 2, 10, IdType::kInt32};
  const DatasetLayout first = layout(LabelType::kUint8, {e, f});
  DatasetLayout wide = first;
  wide.dense = 2;
  const std::vector<std::pair<DatasetLayout, std::string>> others{
      {layout(LabelType::kFloat32, {e, f}), "the type of /label"},
      {wide, "the width of /dense"},
      {layout(LabelType::kUint8, {}), "the number of features"},
      {layout(LabelType::kUint8, {e}), "the number of features"},
      {layout(LabelType::kUint8, {e, f, {"g", 1, 10, IdType::kInt32}}), "the number of features"},
      {layout(LabelType::kUint8, {{"d", 3, 9, IdType::kInt64}, f}), "the set of features (e, d)"},
      {layout(LabelType::kUint8, {e, {"g", 2, 10, IdType::kInt32}}), "the set of features (f, g)"},
      {layout(LabelType::kUint8, {{"e", 2, 9, IdType::kInt64}, f}), "the hotness of feature e"},
      {layout(LabelType::kUint8, {e, {"f", 3, 10, IdType::kInt32}}), "the hotness of feature f"},
      {layout(LabelType::kUint8, {e, {"f", 0, 10, IdType::kInt32}}), "the hotness of feature f"},
      {layout(LabelType::kUint8, {{"e", 3, 9, IdType::kInt32}, f}),
       "the type of the ids of feature e"},
      {layout(LabelType::kUint8, {e, {"f", 2, 10, IdType::kInt64}}),
       "the type of the ids of feature f"}};
  for (const auto& [other, what] : others) {
    const TemporaryFolder folder;
    DatasetWriter(folder / "a.h5", first).finish();
    DatasetWriter(folder / "b.h5", other).finish();
    EXPECT_EQ(usage_error_of([&] { Dataset(folder.path()); }),
              fmt::format("{} and {} do not belong together: {} differs", folder / "a.h5",
                          folder / "b.h5", what));
  }
}

TEST(Dataset, RowsAreTheMostOfAnyFileAndOtherFilesAreLeftOut) {
  const TemporaryFolder folder;
  SmallDataset data;
  const std::vector<int64_t> rows{20, 50, 30};
  for (size_t f = 0; f < rows.size(); ++f) {
    data.rows_one = rows[f];
    data.write(folder / (std::to_string(f) + (f == 1 ? ".hdf5" : ".h5")));
  }
  for (const char* name : {".hidden.h5", ".hidden.hdf5", ".h5", "readme.txt", "3.h5.partial", "h5",
                           "hdf5", "4.h55", "4.HDF5", "4.hdf"}) {
    std::ofstream(folder / name) << "no dataset";
  }
  const Dataset dataset(folder.path());
  ASSERT_EQ(dataset.files().size(), 3u);
  EXPECT_EQ(dataset.files()[1]->path(), folder / "1.hdf5");
  EXPECT_EQ(dataset.samples(), 30);
  EXPECT_EQ(dataset.starts(), (std::vector<int64_t>{0, 10, 20, 30}));
  EXPECT_EQ(dataset.rows("one"), 50);
  EXPECT_EQ(dataset.rows("three"), 70);
  EXPECT_EQ(dataset.rows("none"), 0);
}

TEST(Dataset, AFolderMayHaveMoreFilesThanAChildReads) {
  const TemporaryFolder folder;
  SmallDataset data;
  data.samples = 3;
  data.write(folder / "0.h5");
  constexpr int kFiles = 258;  // a child reads 256
  for (int f = 1; f < kFiles; ++f) {
    std::filesystem::copy_file(folder / "0.h5", folder / fmt::format("{}.h5", f));
  }
  const Dataset dataset(folder.path());
  EXPECT_EQ(dataset.files().size(), static_cast<size_t>(kFiles));
  EXPECT_EQ(dataset.samples(), 3 * kFiles);
  EXPECT_TRUE(std::is_sorted(
      dataset.files().begin(), dataset.files().end(),
      [](const auto& one, const auto& other) { return one->path() < other->path(); }));
}

TEST(Hdf5Source, MoreRowsInTheTableAndFewerFeaturesThanTheFileAreFine) {
  const TemporaryFolder folder;
  const SmallDataset data;
  data.write(folder / "a.h5");
  RunConfig config = data.config(folder / "a.h5", 10);
  config.model.tables.pop_back();
  config.model.tables[0].rows = 1000;
  config.model.tables[0].features[0].hotness = 9;  // bags of offsets may have another mean
  Batch batch;
  make_batch_source(config, Split::kTrain, 0, 1)->load(0, batch);
  EXPECT_EQ(batch.offsets.size(), 21u);
}

TEST(Hdf5Source, TheSeedAndTheSwitchDecideTheOrder) {
  const TemporaryFolder folder;
  SmallDataset data;
  data.samples = 40;
  data.write(folder / "a.h5");
  RunConfig config = data.config(folder / "a.h5", 40);
  const auto first = samples_of_batch(data, config, 0, 1);
  EXPECT_EQ(samples_of_batch(data, config, 0, 1), first);
  config.train.seed = 2;
  EXPECT_NE(samples_of_batch(data, config, 0, 1), first);
}

TEST(Hdf5Source, AListIsTheSequenceOfItsFilesAndFolders) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "more");
  SmallDataset data;
  data.samples = 3;
  for (const char* name : {"z.h5", "more/a.h5", "more/b.h5", "c.h5"}) {
    data.write(folder / name);
    data.first += 3;
  }
  RunConfig config = data.config(folder / "z.h5", 12);
  config.data.train.push_back(folder / "more");
  config.data.train.push_back(folder / "c.h5");
  config.data.shuffle = false;
  config.data.test = {folder / "c.h5", folder / "z.h5"};
  data.first = 0;
  EXPECT_EQ(samples_of_batch(data, config, 0, 1),
            (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  Batch batch;
  const auto test = make_batch_source(config, Split::kTest, 0, 1);
  test->load(0, batch);
  EXPECT_EQ(check_and_list(data, batch), (std::vector<int64_t>{9, 10, 11, 0, 1, 2}));
  EXPECT_EQ(test->describe(), folder / "c.h5" + ", " + folder / "z.h5" + ": 6 samples in 2 files");
  config.data.train.push_back(folder / "absent.h5");
  EXPECT_EQ(usage_error_of([&] { make_batch_source(config, Split::kTrain, 0, 1); }),
            folder / "absent.h5" + ": cannot open the dataset: No such file or directory");
}

TEST(Hdf5Source, AHintChangesNothing) {
  const TemporaryFolder folder;
  SmallDataset data;
  data.samples = 50000;
  data.write(folder / "a.h5", 50000);
  const RunConfig config = data.config(folder / "a.h5", 8192);
  const auto plain = make_batch_source(config, Split::kTrain, 0, 1);
  const auto hinted = make_batch_source(config, Split::kTrain, 0, 1);
  Batch a, b;
  for (const int64_t t : {0, 6, 7, 3}) {
    hinted->will_need(t);
    plain->load(t, a);
    hinted->load(t, b);
    EXPECT_EQ(a.ids, b.ids);
    EXPECT_EQ(a.dense, b.dense);
  }
}

TEST(Hdf5Source, ManyWorkersLoadTheBatchesOfOneWorker) {
  const TemporaryFolder folder;
  SmallDataset data;
  data.samples = 70000;
  data.write(folder / "a.h5", 70000);
  const RunConfig config = data.config(folder / "a.h5", 3000);
  const auto alone = make_batch_source(config, Split::kTrain, 1, 2);
  const auto shared = make_batch_source(config, Split::kTrain, 1, 2);
  Prefetcher prefetcher(*shared, 20, 70, 4, 6);  // crosses the ends of two epochs
  Batch want;
  for (int64_t t = 20; t < 70; ++t) {
    const Batch* got = prefetcher.next();
    alone->load(t, want);
    EXPECT_EQ(got->t, t);
    EXPECT_EQ(got->ids, want.ids);
    EXPECT_EQ(got->offsets, want.offsets);
    EXPECT_EQ(got->dense, want.dense);
  }
}

}  // namespace
}  // namespace dlrm
