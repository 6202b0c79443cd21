// Errors of dataset files as a source of batches, and batches that were used before.
#include <filesystem>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "dlrm/data/batch_source.h"
#include "dlrm/hdf5/file.h"

#include "dataset_fixture.h"

namespace dlrm {
namespace {

TEST(Hdf5Source, RefusalsAreOneLine) {
  const TemporaryFolder folder;
  const SmallDataset data;
  data.write(folder / "a.h5");
  const auto error = [&](const std::function<void(RunConfig&)>& change) {
    RunConfig config = data.config(folder / "a.h5", 4);
    change(config);
    return usage_error_of([&] { make_batch_source(config, Split::kTrain, 0, 1); });
  };
  const std::string path = folder / "a.h5";
  EXPECT_EQ(error([](auto& c) { c.model.tables[2].features[0].name = "threee"; }),
            path + ": there is no feature threee (of table three); the nearest is three");
  EXPECT_EQ(error([](auto& c) { c.model.tables[1].features[0].hotness = 2; }),
            path + ": feature one has hotness 1, the config says 2");
  EXPECT_EQ(error([](auto& c) { c.model.tables[1].rows = 49; }),
            path + ": feature one has 50 rows, table one of the config only 49");
  EXPECT_EQ(error([](auto& c) { c.model.dense_features = 13; }),
            path + ": /dense has 2 numbers a sample, model.dense_features is 13");
  EXPECT_EQ(error([](auto& c) { c.data.train.clear(); }),
            "data.train names no file, and data.source is hdf5");
  EXPECT_EQ(error([](auto& c) { c.data.train = {"/nowhere/x.h5"}; }),
            "/nowhere/x.h5: cannot open the dataset: No such file or directory");
  EXPECT_EQ(error([](auto& c) { c.data.train = {"/dev/null"}; }), "/dev/null: not a file");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(error([&](auto& c) { c.data.train = {folder / "pipe"}; }),
            folder / "pipe" + ": not a file");
  std::ofstream(folder / "empty.h5") << "";
  EXPECT_EQ(error([&](auto& c) { c.data.train = {folder / "empty.h5"}; }),
            folder / "empty.h5" + ": not an HDF5 file: it is empty");
  EXPECT_EQ(error([](auto& c) {
              c.data.source = DataKind::kSynthetic;
              c.data.synthetic.samples = 0;
            }),
            "data.synthetic.samples must be at least 1");
}

/// Bags of these lengths, of which some are negative. Batches have one sample.
TEST(Hdf5Source, OffsetsThatFallOrLieOutsideNameTheRecord) {
  const TemporaryFolder folder;
  const auto error = [&](const std::vector<int32_t>& lengths, int64_t t) -> std::string {
    DatasetLayout layout;
    layout.dense = 1;
    layout.features = {{"f", 0, 8, IdType::kInt32}};
    DatasetWriter writer(folder / "a.h5", layout);
    const std::vector<float> ones(lengths.size(), 1.0f);
    const std::vector<int32_t> ids(4, 3);
    DatasetBlock block{static_cast<int64_t>(lengths.size()), ones, ones, {}};
    block.bags.resize(1);
    block.bags[0].ids = ids;
    block.bags[0].lengths = lengths;
    writer.append(block);
    writer.finish();
    RunConfig config = SmallDataset().config(folder / "a.h5", 1);
    config.model.dense_features = 1;
    config.model.tables.resize(1);
    config.model.tables[0].features[0] = {"f", 1, Pooling::kSum};
    config.data.shuffle = false;
    Batch batch;
    const auto source = make_batch_source(config, Split::kTrain, 0, 1);
    return usage_error_of([&] { source->load(t, batch); }).substr((folder / "a.h5").size());
  };
  const auto text = [](int record, int from, int to) {
    return fmt::format(
        ": record {} (counted from 0), feature f: offsets {} to {}; they must rise and stay within "
        "4 ids",
        record, from, to);
  };
  EXPECT_EQ(error({2, -1, 3}, 1), text(1, 2, 1));
  EXPECT_EQ(error({0, 5, -1}, 1), text(1, 0, 5));
  EXPECT_EQ(error({0, 5, -1}, 2), text(2, 5, 4));
  EXPECT_EQ(error({-1, 5}, 0), text(0, 0, -1));
  EXPECT_EQ(error({-1, 5}, 1), text(1, -1, 4));
  EXPECT_EQ(error({-1, 0, 5}, 1), text(1, -1, -1));
}

TEST(Hdf5Source, ABatchOfAnotherSourceIsFilledAnew) {
  const TemporaryFolder folder;
  SmallDataset data;
  data.write(folder / "a.h5");
  const RunConfig config = data.config(folder / "a.h5", 4);
  Batch used, fresh;
  used.dropped = 9;
  used.labels.assign(50, 7);
  used.ids.assign(50, 7);
  const auto source = make_batch_source(config, Split::kTrain, 0, 1);
  source->load(1, used);
  source->load(1, fresh);
  EXPECT_EQ(used.dropped, 0);
  EXPECT_EQ(used.labels, fresh.labels);
  EXPECT_EQ(used.ids, fresh.ids);
  RunConfig generated = config;
  generated.data.source = DataKind::kSynthetic;
  generated.data.synthetic.samples = 100;
  const auto synthetic = make_batch_source(generated, Split::kTrain, 0, 1);
  used.dropped = 9;
  used.epoch = 9;
  synthetic->load(30, used);
  synthetic->load(30, fresh);
  EXPECT_EQ(used.dropped, 0);
  EXPECT_EQ(used.epoch, 1);
  EXPECT_EQ(used.ids, fresh.ids);
  EXPECT_EQ(used.labels, fresh.labels);
}

TEST(Hdf5Source, ALabelOfOneByteIsZeroOrOneToo) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.h5";
  SmallDataset().write(path);
  RunConfig config = SmallDataset().config(path, 10);
  config.data.shuffle = config.data.verify = false;
  hdf5::File file = hdf5::File::open(path, hdf5::File::Access::kReadWrite);
  const int64_t offset = file.dataset("/label").storage().offset;
  file.close();
  std::fstream bytes(path, std::ios::binary | std::ios::in | std::ios::out);
  bytes.seekp(offset + 9);
  bytes.put(2);
  bytes.close();
  Batch batch;
  EXPECT_EQ(usage_error_of([&] { make_batch_source(config, Split::kTrain, 0, 1)->load(0, batch); }),
            path + ": record 9 (counted from 0): label 2; labels are 0, 1 or between");
}

TEST(Hdf5Source, IdsAreBelowTheMostRowsOfAnyFile) {
  const TemporaryFolder folder;
  SmallDataset data;
  data.samples = 15;
  data.rows_one = 9;
  data.write(folder / "a.h5");
  data.rows_one = 50;
  data.write(folder / "b.h5");
  RunConfig config = data.config(folder.path(), 15);
  config.data.shuffle = false;
  const auto source = make_batch_source(config, Split::kTrain, 0, 1);
  Batch batch;
  source->load(1, batch);
  EXPECT_EQ(batch.ids[static_cast<size_t>(batch.offsets[15]) + 14], 14);
  config.model.tables[1].rows = 49;
  EXPECT_EQ(usage_error_of([&] { make_batch_source(config, Split::kTrain, 0, 1); }),
            folder / "b.h5" + ": feature one has 50 rows, table one of the config only 49");
}

}  // namespace
}  // namespace dlrm
