#include "dlrm/data/dataset_file.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>

#include <gmock/gmock.h>

#include "dlrm/data/batch_source.h"
#include "dlrm/hdf5/file.h"

#include "dataset_fixture.h"

namespace dlrm {
namespace {

using ::testing::HasSubstr;

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<int64_t>(bytes.size()));
}

TEST(DatasetWriter, NothingIsLeftWithoutFinish) {
  const TemporaryFolder folder;
  {
    const SmallDataset data;
    DatasetWriter spooled(folder / "a.h5", data.layout());
    data.append(spooled, 0, 5);
    DatasetLayout layout;
    layout.samples = 100;
    const DatasetWriter direct(folder / "b.h5", layout);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(DatasetWriter, TheTimeChangesNoByte) {
  const TemporaryFolder folder;
  const SmallDataset data;
  data.write(folder / "a.h5");
  std::this_thread::sleep_for(
      std::chrono::milliseconds(1100));  // more than a second, the resolution of HDF5's times
  data.write(folder / "b.h5");
  EXPECT_EQ(bytes_of_file(folder / "a.h5"), bytes_of_file(folder / "b.h5"));
}

TEST(DatasetWriter, AnEarlierFileStaysUntilFinish) {
  const TemporaryFolder folder;
  SmallDataset data;
  data.write(folder / "a.h5");
  const std::string before = bytes_of_file(folder / "a.h5");
  {
    data.samples = 20;
    DatasetWriter writer(folder / "a.h5", data.layout());
    data.append(writer, 0, 20);
    EXPECT_EQ(bytes_of_file(folder / "a.h5"), before);
    writer.finish();
  }
  EXPECT_EQ(DatasetFile(folder / "a.h5").samples(), 20);
}

TEST(DatasetWriter, NarrowIdsAllowTwoToThe31Rows) {
  const TemporaryFolder folder;
  const int64_t most = int64_t{1} << 31;
  const auto write = [&](IdType ids, int64_t rows, int64_t later) {
    DatasetLayout layout;
    layout.features = {{"f", 1, rows, ids}};
    layout.samples = 0;
    DatasetWriter writer(folder / "a.h5", layout);
    writer.set_rows(0, later);
    writer.finish();
  };
  EXPECT_NO_THROW(write(IdType::kInt32, most, most));
  EXPECT_NO_THROW(write(IdType::kInt64, most + 1, most + 1));
  const std::string why = "feature f has 2147483649 rows, too many for 32-bit ids";
  EXPECT_THAT(usage_error_of([&] { write(IdType::kInt32, most + 1, 5); }), HasSubstr(why));
  EXPECT_THAT(usage_error_of([&] { write(IdType::kInt32, 5, most + 1); }), HasSubstr(why));
}

TEST(DatasetWriter, RowsMayBeSetAtTheEnd) {
  const TemporaryFolder folder;
  for (const int64_t samples : {int64_t{-1}, int64_t{0}}) {
    DatasetLayout layout;
    layout.features = {{"f", 1, 0, IdType::kInt32}};
    layout.samples = samples;
    DatasetWriter writer(folder / "a.h5", layout);
    writer.set_rows(0, 77);
    writer.finish();
    EXPECT_EQ(DatasetFile(folder / "a.h5").find("f")->rows, 77);
  }
}

TEST(DatasetFile, AFileOfNoSamplesOpens) {
  const TemporaryFolder folder;
  SmallDataset data;
  data.samples = 0;
  data.write(folder / "a.h5");
  const DatasetFile file(folder / "a.h5");
  EXPECT_EQ(file.samples(), 0);
  EXPECT_EQ(file.features().size(), 3u);
  const RunConfig config = data.config(folder / "a.h5", 4);
  EXPECT_THAT(usage_error_of([&] { make_batch_source(config, Split::kTrain, 0, 1); }),
              HasSubstr("no samples"));
}

TEST(DatasetFile, AFeatureWithAControlCharacterIsRefusedInOneLine) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.h5";
  SmallDataset().write(path);
  hdf5::File file = hdf5::File::open(path, hdf5::File::Access::kReadWrite);
  file.create_dataset("/sparse/two\nlines/ids", hdf5::Type::kInt32, {10});
  file.close();
  EXPECT_EQ(usage_error_of([&] { DatasetFile opened(path); }),
            path + ": the name of a feature in /sparse has a control character");
}

TEST(DatasetFile, NumbersThatCannotBeAreNamed) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.h5";
  const auto error = [&](const std::string& object, const char* name, int64_t value) {
    SmallDataset().write(path);
    hdf5::File file = hdf5::File::open(path, hdf5::File::Access::kReadWrite);
    if (object == "/") {
      file.set_integer(name, value);
    } else {
      file.dataset(object).set_integer(name, value);
    }
    file.close();
    return usage_error_of([&] { DatasetFile opened(path); });
  };
  const std::string power = "; it must be a power of 2";
  for (const int64_t block :
       {int64_t{0}, int64_t{-4}, int64_t{3}, (int64_t{1} << 48) + 1, int64_t{1} << 49}) {
    EXPECT_EQ(error("/", "checksum_samples", block),
              fmt::format("{}: attribute checksum_samples is {}{}", path, block, power));
  }
  // 10 samples have 3 blocks of 4. The file has the checksum of one.
  EXPECT_EQ(
      error("/", "checksum_samples", 4),
      path + ": /checksums/label must hold 3 numbers uint32, one for each block of 4 samples");
  EXPECT_EQ(error("/sparse/one/ids", "rows", -1), path + ": /sparse/one/ids: attribute rows is -1");
  EXPECT_EQ(error("/", "samples", -1), path + ": attribute samples is -1");
  EXPECT_EQ(error("/", "samples", 11),
            path + ": /label has 10 elements, attribute samples says 11");
  EXPECT_EQ(error("/sparse/three/ids", "hotness", 2),
            path + ": /sparse/three/ids holds 30 ids; 10 samples of hotness 2 need another number");
}

/// The size in the metadata of /label is changed.
TEST(DatasetFile, ASizeOfNoFileIsDamage) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.h5";
  const uint64_t most = uint64_t{1} << 48;
  for (const uint64_t size : {most, most + 1}) {
    hdf5::File file = hdf5::File::create(path);
    file.set_fixed_text("format", "dlrm-dataset");
    file.set_integer("version", 1);
    file.set_integer("samples", 10);
    file.create_dataset("/label", hdf5::Type::kUint8, {4099});
    file.close();
    std::string bytes = bytes_of_file(path);
    const uint64_t right = 4099;
    const std::string_view before(reinterpret_cast<const char*>(&right), 8);
    for (size_t at = 0; (at = bytes.find(before, at)) != std::string::npos;) {
      std::memcpy(&bytes[at], &size, 8);
    }
    write_bytes(path, bytes);
    const std::string error = usage_error_of([&] { DatasetFile opened(path); });
    EXPECT_EQ(error, path + (size == most ? ": /label has 281474976710656 elements, attribute "
                                            "samples says 10"
                                          : ": /label is damaged"));
  }
}

TEST(DatasetFile, AFileCutShortIsRefused) {
  const TemporaryFolder folder;
  const SmallDataset data;
  data.write(folder / "a.h5");
  const std::string whole = bytes_of_file(folder / "a.h5");
  for (size_t size = 0; size < whole.size(); size += 1 + whole.size() / 29) {
    write_bytes(folder / "cut.h5", whole.substr(0, size));
    EXPECT_THAT(usage_error_of([&] { DatasetFile(folder / "cut.h5"); }), HasSubstr("cut.h5"))
        << size;
  }
}

TEST(Dataset, AnEmptyFolderIsNamed) {
  const TemporaryFolder folder;
  EXPECT_THAT(usage_error_of([&] { Dataset(folder.path()); }), HasSubstr(folder.path()));
}

/// Opens a file. If that succeeds, loads all of it. An Error is allowed, a crash is not.
void open_and_load(const std::string& path, const RunConfig& config) {
  try {
    const auto source = make_batch_source(config, Split::kTrain, 0, 1);
    Batch batch;
    for (int64_t t = 0; t < std::min<int64_t>(source->plan().batches_per_epoch(), 4); ++t) {
      source->load(t, batch);
      for (size_t f = 0; f < 3; ++f) {
        const auto b = static_cast<size_t>(batch.size());
        const int64_t rows = config.model.tables[f].rows;
        for (int64_t k = batch.offsets[f * b]; k < batch.offsets[(f + 1) * b]; ++k) {
          ASSERT_LT(static_cast<uint64_t>(batch.ids[static_cast<size_t>(k)]),
                    static_cast<uint64_t>(rows));
        }
      }
    }
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(path));
  }
}

/// The extents of a file's columns. Bytes in them are values, not the library's structures.
std::vector<std::pair<size_t, size_t>> column_extents(const std::string& path) {
  const std::string whole = bytes_of_file(path);
  const DatasetFile file(path);
  std::vector<std::pair<size_t, size_t>> extents;
  const auto add = [&](const std::byte* column, int64_t bytes) {
    const auto size = static_cast<size_t>(bytes);
    extents.emplace_back(whole.find({reinterpret_cast<const char*>(column), size}), size);
  };
  add(file.labels(), file.samples());
  add(file.dense(), file.samples() * file.dense_width() * 4);
  for (const MappedFeature& feature : file.features()) {
    add(feature.ids, feature.count * bytes_of(feature.type));
    if (feature.offsets) add(feature.offsets, (file.samples() + 1) * 8);
  }
  return extents;
}

TEST(DatasetFile, ChangedValuesGiveAnErrorOrOtherValidValues) {
  const TemporaryFolder folder;
  SmallDataset data;
  data.samples = 50;
  data.write(folder / "a.h5");
  const auto extents = column_extents(folder / "a.h5");
  const std::string whole = bytes_of_file(folder / "a.h5");
  const std::string path = folder / "changed.h5";
  const RunConfig config = data.config(path, 16);
  std::mt19937 random(1);
  const int rounds = std::getenv("DLRM_TEST_ALL") ? 400 : 80;  // each starts a process
  for (int round = 0; round < rounds; ++round) {
    std::string changed = whole;
    for (int c = 0; c < 1 + round % 8; ++c) {
      const auto& [begin, size] = extents[random() % extents.size()];
      changed[begin + random() % size] = static_cast<char>(random());
    }
    write_bytes(path, changed);
    open_and_load(path, config);
  }
}

void write_attribute(const std::string& path, const std::string& object, const char* name,
                     int64_t value) {
  hdf5::File file = hdf5::File::open(path, hdf5::File::Access::kReadWrite);
  if (object == "/") {
    file.set_integer(name, value);
  } else {
    file.dataset(object).set_integer(name, value);
  }
}

TEST(DatasetFile, AnyNumberInAnAttributeIsAnErrorOrHarmless) {
  const TemporaryFolder folder;
  SmallDataset data;
  data.samples = 50;
  const std::string path = folder / "a.h5";
  data.write(path, 50);
  const std::string whole = bytes_of_file(path);
  const RunConfig config = data.config(path, 16);
  const std::vector<std::pair<const char*, const char*>> attributes{
      {"/", "version"},
      {"/", "samples"},
      {"/sparse/one/ids", "rows"},
      {"/sparse/three/ids", "hotness"},
      {"/sparse/three/ids", "rows"},
      {"/sparse/bags/ids", "rows"}};
  for (const auto& [object, name] : attributes) {
    for (const int64_t value :
         {INT64_MIN, INT64_MIN + 1, int64_t{-50}, int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{2},
          int64_t{49}, int64_t{51}, int64_t{150}, int64_t{1} << 31, int64_t{1} << 62, INT64_MAX}) {
      write_bytes(path, whole);
      write_attribute(path, object, name, value);
      open_and_load(path, config);
    }
  }
}

/// Files written by h5py.
class H5pyFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string command =
        "/usr/bin/python3 " DLRM_SOURCE "/tests/data/make_datasets.py " + folder_.path();
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }
  TemporaryFolder folder_;
};

RunConfig python_config(const std::string& path) {
  SmallDataset shape;
  shape.rows_one = 6;
  shape.rows_bags = 10;
  RunConfig config = shape.config(path, 6);
  config.model.tables.pop_back();
  config.data.shuffle = false;
  return config;
}

TEST_F(H5pyFiles, ValidFilesAreReadLikeOurOwn) {
  Batch batch;
  make_batch_source(python_config(folder_ / "good.h5"), Split::kTrain, 0, 1)->load(0, batch);
  EXPECT_EQ(batch.ids, (std::vector<int64_t>{9, 8, 7, 5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(batch.offsets, (std::vector<int64_t>{0, 0, 2, 2, 3, 3, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(batch.labels, (std::vector<float>{0, 1, 0, 1, 1, 0}));
  EXPECT_EQ(batch.dense[11], 11.0f);
  EXPECT_TRUE(batch.weights.empty());
  make_batch_source(python_config(folder_ / "weighted.h5"), Split::kTrain, 0, 1)->load(0, batch);
  EXPECT_EQ(batch.weights, (std::vector<float>{0, 1, 2, 0.5f, 3, 4}));
}

TEST_F(H5pyFiles, EveryMalformedFileIsRefusedByName) {
  int refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    const std::string path = entry.path().string();
    if (entry.path().filename().string().rfind("refused_", 0) != 0) continue;
    ++refused;
    EXPECT_THAT(usage_error_of([&] { DatasetFile file(path); }), HasSubstr(path));
  }
  EXPECT_GT(refused, 20);
}

}  // namespace
}  // namespace dlrm
