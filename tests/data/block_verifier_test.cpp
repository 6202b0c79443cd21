// The verification of blocks of several files.
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <hdf5.h>

#include "dlrm/core/file.h"
#include "dlrm/data/batch_source.h"
#include "dlrm/hdf5/file.h"

#include "data/dataset_layout.h"
#include "dataset_fixture.h"

namespace dlrm {
namespace {

/// Flips a bit of a byte of a column.
void damage(const std::string& path, const std::string& column, int64_t at) {
  const hdf5::File metadata = hdf5::File::open(path);
  const int64_t offset = metadata.dataset(column).storage().offset + at;
  File file(path, File::Mode::kReadWrite);
  uint8_t byte = 0;
  file.read(&byte, 1, offset);
  byte ^= 1;
  file.write(&byte, 1, offset);
}

/// Files without checksums, with blocks of 16 samples, and with the usual blocks.
TEST(BlockVerifier, EachFileHasItsOwnBlocks) {
  const TemporaryFolder folder;
  std::vector<std::string> paths;
  SmallDataset data;
  for (const int64_t samples : {10, 12, static_cast<int>(kChecksumSamples) + 10}) {
    paths.push_back(folder / fmt::format("{}.h5", paths.size()));
    data.samples = samples;
    data.write(paths.back(), samples);
  }
  const hid_t file = H5Fopen(paths[0].c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  EXPECT_GE(H5Adelete(file, "checksum_samples"), 0);
  H5Fclose(file);
  hdf5::File second = hdf5::File::open(paths[1], hdf5::File::Access::kReadWrite);
  second.set_integer("checksum_samples", 16);
  second.close();
  for (const bool shuffle : {false, true}) {
    RunConfig config = data.config(paths[0], kChecksumSamples + 32);
    config.data.train = paths;
    config.data.shuffle = shuffle;
    const auto load = [&] {
      Batch batch;
      make_batch_source(config, Split::kTrain, 0, 1)->load(0, batch);
    };
    const auto text = [&](size_t f, int64_t first, int64_t last) {
      return fmt::format(
          "{}: /dense is damaged in samples {} to {}: their CRC32C is not the one that was written "
          "(data.verify: false reads them anyway)",
          paths[f], first, last);
    };
    load();
    damage(paths[0], "/dense", 9 * 8);
    load();
    damage(paths[2], "/dense", (kChecksumSamples + 9) * 8);
    EXPECT_EQ(usage_error_of(load), text(2, kChecksumSamples, kChecksumSamples + 9));
    damage(paths[2], "/dense", (kChecksumSamples + 9) * 8);
    damage(paths[1], "/dense", 11 * 8);
    EXPECT_EQ(usage_error_of(load), text(1, 0, 11));
    damage(paths[1], "/dense", 11 * 8);
    damage(paths[0], "/dense", 9 * 8);
    load();
  }
}

}  // namespace
}  // namespace dlrm
