#include <cstdlib>
#include <fstream>
#include <random>

#include <gmock/gmock.h>

#include "dlrm/data/batch_source.h"
#include "dlrm/data/dataset_file.h"

#include "dataset_fixture.h"

namespace dlrm {
namespace {

using ::testing::HasSubstr;

// Each starts a process.
const unsigned kCases = std::getenv("DLRM_TEST_ALL") ? 300 : 60;
// HDF5 1.10.8 ends with SIGSEGV in case 628.
constexpr unsigned kFirstSeed = 600;

/// So many features that HDF5's index of names has several levels.
constexpr int64_t kFeatures = 40;

DatasetLayout many_features() {
  DatasetLayout layout;
  layout.dense = 2;
  for (int64_t f = 0; f < kFeatures; ++f) {
    layout.features.push_back({"C" + std::to_string(f), 1, 3, IdType::kInt32});
  }
  return layout;
}

void write_many_features(const std::string& path) {
  const std::vector<float> labels{0, 1}, dense{1, 2, 3, 4};
  const std::vector<int32_t> ids{0, 2};
  DatasetBlock block;
  block.samples = 2;
  block.labels = labels;
  block.dense = dense;
  block.bags.resize(kFeatures);
  for (BagColumn& bag : block.bags) bag.ids = ids;
  DatasetWriter writer(path, many_features());
  writer.append(block);
  writer.finish();
}

RunConfig config_of(const std::string& path) {
  RunConfig config;
  config.model.dense_features = 2;
  for (const FeatureColumn& feature : many_features().features) {
    TableConfig table;
    table.name = table.group = feature.name;
    table.rows = 3;
    table.dim = 4;
    table.features.push_back({feature.name, 1, Pooling::kSum});
    config.model.tables.push_back(table);
  }
  config.data.train = {path};
  config.data.shuffle = false;
  config.train.global_batch_size = 2;
  return config;
}

/// Changes one to eight bytes, close together or anywhere. Every byte is metadata: values take a
/// few hundred bytes of the file.
std::string damaged(const std::string& whole, unsigned seed) {
  std::mt19937 random(seed);
  std::string changed = whole;
  const size_t bytes = 1 + random() % 8;
  const size_t near = random() % whole.size();
  for (size_t i = 0; i < bytes; ++i) {
    const size_t at =
        seed % 2 == 0 ? (near + random() % 64) % whole.size() : random() % whole.size();
    changed[at] = static_cast<char>(random() % 3 == 0 ? 0xff : random());
  }
  return changed;
}

TEST(DamagedMetadata, IsAnErrorThatNamesTheFileOrIsReadRightAndNeverASignal) {
  const TemporaryFolder folder;
  write_many_features(folder / "good.h5");
  const std::string whole = bytes_of_file(folder / "good.h5");
  const std::string path = folder / "damaged.h5";
  const RunConfig config = config_of(path);
  int refused = 0;
  for (unsigned seed = kFirstSeed; seed < kFirstSeed + kCases; ++seed) {
    std::ofstream(path, std::ios::binary) << damaged(whole, seed);
    try {
      const auto source = make_batch_source(config, Split::kTrain, 0, 1);
      Batch batch;
      source->load(0, batch);
      EXPECT_EQ(batch.dense, (std::vector<float>{1, 2, 3, 4})) << "seed " << seed;
    } catch (const Error& error) {
      ++refused;
      EXPECT_EQ(error.code(), ExitCode::kUsage) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(path)) << "seed " << seed;
    }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace dlrm
