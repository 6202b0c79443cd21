#include <cstring>
#include <fstream>

#include <gmock/gmock.h>

#include "dlrm/data/batch_source.h"
#include "dlrm/data/dataset_file.h"

#include "data/dataset_layout.h"
#include "dataset_fixture.h"

namespace dlrm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// CRC-32C, bit by bit.
uint32_t plain_crc32c(const std::byte* data, size_t bytes) {
  uint32_t crc = 0xffffffffu;
  for (size_t i = 0; i < bytes; ++i) {
    crc ^= static_cast<uint32_t>(data[i]);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

/// Two whole blocks and a short one, in a file that this process may change.
class DatasetChecksums : public ::testing::Test {
 protected:
  DatasetChecksums() {
    data_.samples = 2 * kChecksumSamples + 500;
    data_.weighted = true;
    data_.write(path_, data_.samples);
  }

  /// Flips a bit of byte `at` of a column of the file.
  void damage(const std::byte* column, int64_t at) const {
    // Columns differ from one another within their first bytes.
    const std::string whole = bytes_of_file(path_);
    const size_t begin = whole.find({reinterpret_cast<const char*>(column), 4096});
    ASSERT_NE(begin, std::string::npos);
    std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
    const auto place = static_cast<std::streamoff>(begin) + at;
    file.seekp(place);
    file.put(static_cast<char>(whole[static_cast<size_t>(place)] ^ 1));
  }

  RunConfig config(bool shuffle) const {
    RunConfig config = data_.config(path_, 3000);
    config.data.shuffle = shuffle;
    return config;
  }

  /// Loads an epoch as training does.
  void load_all(const RunConfig& config, int rank = 0, int world = 1) const {
    const auto source = make_batch_source(config, Split::kTrain, rank, world);
    const int64_t batches = source->plan().batches_per_epoch();
    Prefetcher prefetcher(*source, 0, batches, 3, 4);
    for (int64_t t = 0; t < batches; ++t) prefetcher.next();
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "a.h5";
  SmallDataset data_;
};

TEST_F(DatasetChecksums, AChangedBitOfAnyColumnNamesFileColumnAndSamples) {
  struct Case {
    const char* name;
    int64_t sample_bytes;
    const std::byte* column;
  };
  const DatasetFile file(path_);
  const std::vector<Case> cases{{"/label", 1, file.labels()},
                                {"/dense", 8, file.dense()},
                                {"/weight", 4, file.weights()},
                                {"/sparse/one/ids", 4, file.find("one")->ids},
                                {"/sparse/three/ids", 24, file.find("three")->ids},
                                {"/sparse/bags/ids", 6, file.find("bags")->ids},
                                {"/sparse/bags/offsets", 8, file.find("bags")->offsets}};
  for (const auto& [name, sample_bytes, column] : cases) {
    const int64_t at = sample_bytes * (kChecksumSamples + 5000);
    damage(column, at);
    for (const bool shuffle : {false, true}) {
      EXPECT_THAT(usage_error_of([&] { load_all(config(shuffle)); }),
                  AllOf(HasSubstr(path_), HasSubstr(std::string(name) + " is damaged"),
                        HasSubstr("samples 16384 to 32767")));
    }
    damage(column, at);
  }
  load_all(config(true));
}

TEST_F(DatasetChecksums, EveryRankFindsDamageInTheBlocksThatItReads) {
  damage(DatasetFile(path_).dense(), 7);
  for (const int rank : {0, 1, 2}) {
    EXPECT_THAT(usage_error_of([&] { load_all(config(true), rank, 3); }),
                AllOf(HasSubstr("/dense"), HasSubstr("samples 0 to 16383")));
  }
}

TEST_F(DatasetChecksums, TheLastBlockMayBeShort) {
  damage(DatasetFile(path_).labels(), data_.samples - 1);
  EXPECT_THAT(usage_error_of([&] { load_all(config(false)); }),
              HasSubstr("samples 32768 to 33267"));
}

TEST_F(DatasetChecksums, OfColumnsThatTheConfigDoesNotUseAreNotCompared) {
  damage(DatasetFile(path_).find("one")->ids, 4);
  RunConfig without = config(true);
  without.model.tables.erase(without.model.tables.begin() + 1);
  load_all(without);
}

TEST_F(DatasetChecksums, AreNotComparedWithVerifyOff) {
  damage(DatasetFile(path_).dense(), 0);
  RunConfig trusting = config(true);
  trusting.data.verify = false;
  load_all(trusting);
}

TEST_F(DatasetChecksums, ADamagedBlockIsFoundEachTimeItIsRead) {
  damage(DatasetFile(path_).dense(), 0);
  const auto source = make_batch_source(config(false), Split::kTrain, 0, 1);
  Batch batch;
  for (int round = 0; round < 3; ++round) {
    EXPECT_THAT(usage_error_of([&] { source->load(0, batch); }), HasSubstr("/dense is damaged"));
  }
}

TEST_F(DatasetChecksums, TheOffsetAtTheEndOfABlockBelongsToBothBlocks) {
  damage(DatasetFile(path_).find("bags")->offsets, kChecksumSamples * 8);
  const DatasetFile file(path_);
  std::vector<size_t> bags;
  for (size_t f = 0; f < file.features().size(); ++f) {
    if (file.features()[f].name == "bags") bags.push_back(f);
  }
  EXPECT_THAT(usage_error_of([&] { file.verify(0, bags); }), HasSubstr("offsets is damaged"));
  EXPECT_THAT(usage_error_of([&] { file.verify(1, bags); }), HasSubstr("offsets is damaged"));
  EXPECT_NO_THROW(file.verify(2, bags));
}

TEST_F(DatasetChecksums, AreTheCrc32cOfTheBlocksBytes) {
  const DatasetFile file(path_);
  const MappedFeature& bags = *file.find("bags");
  ASSERT_EQ(file.blocks(), 3);
  int64_t first_id = 0;
  for (int64_t block = 0; block < 3; ++block) {
    const int64_t begin = block * kChecksumSamples;
    const int64_t end = std::min(begin + kChecksumSamples, data_.samples);
    int64_t last_id = 0;
    std::memcpy(&last_id, bags.offsets + end * 8, 8);
    const auto stored = [&](const std::byte* sums) {
      uint32_t sum = 0;
      std::memcpy(&sum, sums + block * 4, 4);
      return sum;
    };
    EXPECT_EQ(stored(bags.offset_sums),
              plain_crc32c(bags.offsets + begin * 8, static_cast<size_t>(end - begin + 1) * 8));
    EXPECT_EQ(stored(bags.id_sums),
              plain_crc32c(bags.ids + first_id * 4, static_cast<size_t>(last_id - first_id) * 4));
    EXPECT_EQ(
        stored(file.find("three")->id_sums),
        plain_crc32c(file.find("three")->ids + begin * 24, static_cast<size_t>(end - begin) * 24));
    first_id = last_id;
  }
}

TEST_F(DatasetChecksums, ColumnsBeginAtPagesSoThatTheyCanBeMapped) {
  const DatasetFile file(path_);
  std::vector<const std::byte*> columns{file.labels(), file.dense(), file.weights()};
  for (const MappedFeature& feature : file.features()) {
    columns.push_back(feature.ids);
    if (feature.offsets) columns.push_back(feature.offsets);
  }
  for (const std::byte* column : columns) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(column) % 4096, 0u);
  }
}

/// The checksums are renewed, so only the numbers themselves tell.
TEST_F(DatasetChecksums, OffsetsThatLieOutsideAtABlocksEndAreDamage) {
  const DatasetFile file(path_);
  const MappedFeature& bags = *file.find("bags");
  const size_t number = static_cast<size_t>(&bags - file.features().data());
  const std::string whole = bytes_of_file(path_);
  const size_t labels = whole.find({reinterpret_cast<const char*>(file.labels()), 4096});
  const auto write = [&](const std::byte* at, const void* data, std::streamsize bytes) {
    std::fstream out(path_, std::ios::binary | std::ios::in | std::ios::out);
    out.seekp(static_cast<std::streamoff>(labels) + (at - file.labels()));
    out.write(static_cast<const char*>(data), bytes);
  };
  for (const int64_t offset : {int64_t{-5}, bags.count + 1}) {
    write(bags.offsets + kChecksumSamples * 8, &offset, 8);
    for (int64_t block = 0; block < 2; ++block) {
      const uint32_t sum =
          plain_crc32c(bags.offsets + block * kChecksumSamples * 8, (kChecksumSamples + 1) * 8);
      write(bags.offset_sums + block * 4, &sum, 4);
    }
    for (int64_t block = 0; block < 2; ++block) {
      EXPECT_THAT(usage_error_of([&] { file.verify(block, std::vector<size_t>{number}); }),
                  HasSubstr(": /sparse/bags/offsets is damaged in samples "));
    }
  }
}

}  // namespace
}  // namespace dlrm
