#include <cmath>
#include <filesystem>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/data/batch_source.h"
#include "dlrm/data/dataset_file.h"

#include "dataset_fixture.h"

namespace dlrm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A folder of two files with weights: sample i, which has dense value i, has weight i/2.
class WeightedDataset : public ::testing::Test {
 protected:
  WeightedDataset() {
    std::filesystem::create_directory(folder_ / "data");
    data_.weighted = true;
    data_.samples = 53;
    data_.write(folder_ / "data/a.h5");
    SmallDataset more = data_;
    more.first = 53;
    more.samples = 20;
    more.write(folder_ / "data/b.h5");
  }

  RunConfig config() const { return data_.config(folder_ / "data", 16); }

  TemporaryFolder folder_;
  SmallDataset data_;
};

TEST_F(WeightedDataset, WeightsFollowTheirSamplesInAnyOrderOnAnyRank) {
  for (const bool shuffle : {false, true}) {
    for (const int world : {1, 3}) {
      RunConfig config = this->config();
      config.data.shuffle = shuffle;
      Batch batch;
      int64_t samples = 0;
      for (int rank = 0; rank < world; ++rank) {
        const auto source = make_batch_source(config, Split::kTrain, rank, world);
        for (int64_t t = 0; t < source->plan().batches_per_epoch(); ++t) {
          source->load(t, batch);
          ASSERT_EQ(std::ssize(batch.weights), batch.size());
          for (size_t i = 0; i < batch.weights.size(); ++i) {
            EXPECT_EQ(batch.weights[i], batch.dense[2 * i] / 2);
          }
          samples += batch.size();
        }
      }
      EXPECT_EQ(samples, 73);
    }
  }
}

TEST_F(WeightedDataset, TheTestSplitHasItsOwn) {
  data_.weighted = false;
  data_.write(folder_ / "plain.h5");
  RunConfig config = this->config();
  config.data.test = {folder_ / "plain.h5"};
  Batch batch;
  make_batch_source(config, Split::kTrain, 0, 1)->load(0, batch);
  EXPECT_EQ(batch.weights.size(), 16u);
  make_batch_source(config, Split::kTest, 0, 1)->load(0, batch);
  EXPECT_TRUE(batch.weights.empty());
}

TEST_F(WeightedDataset, AReplayedBatchKeepsItsWeights) {
  RunConfig config = this->config();
  Batch first, replayed;
  make_batch_source(config, Split::kTrain, 0, 1)->load(0, first);
  config.data.source = DataKind::kReplay;
  make_batch_source(config, Split::kTrain, 0, 1)->load(3, replayed);
  EXPECT_EQ(replayed.weights, first.weights);
}

TEST_F(WeightedDataset, AllFilesOfADatasetHaveWeightsOrNone) {
  data_.weighted = false;
  data_.write(folder_ / "data/c.h5");
  EXPECT_EQ(error_of([&] { make_batch_source(config(), Split::kTrain, 0, 1); }),
            folder_ / "data/a.h5" + " and " + folder_ / "data/c.h5" +
                " do not belong together: only " + folder_ / "data/a.h5" + " has /weight");
  std::filesystem::rename(folder_ / "data/c.h5", folder_ / "data/0.h5");
  EXPECT_EQ(error_of([&] { Dataset(folder_ / "data"); }),
            folder_ / "data/0.h5" + " and " + folder_ / "data/a.h5" +
                " do not belong together: only " + folder_ / "data/a.h5" + " has /weight");
  std::filesystem::remove(folder_ / "data/0.h5");
  data_.weighted = true;
  data_.samples = 0;  // without a sample, but with the column
  data_.write(folder_ / "data/c.h5");
  EXPECT_EQ(Dataset(folder_ / "data").samples(), 73);
}

TEST_F(WeightedDataset, AWeightThatIsNegativeOrNotFiniteNamesFileAndRecord) {
  const float largest = std::numeric_limits<float>::max();
  for (const float weight : {0.0f, largest, -0.5f, std::nextafter(0.0f, -1.0f), INFINITY, NAN}) {
    DatasetLayout layout;
    layout.label = LabelType::kFloat32;
    layout.weighted = true;
    layout.features = {{"f", 1, 8, IdType::kInt32}};
    const std::vector<float> labels(10, 1.0f);
    std::vector<float> weights(10, 1.0f);
    weights[9] = weight;
    const std::vector<int32_t> ids(10, 3);
    DatasetWriter writer(folder_ / "bad.h5", layout);
    DatasetBlock block{10, labels, {}, {}, weights};
    block.bags.resize(1);
    block.bags[0].ids = ids;
    writer.append(block);
    writer.finish();
    RunConfig config = data_.config(folder_ / "bad.h5", 10);
    config.model.dense_features = 0;
    config.model.tables.resize(1);
    config.model.tables[0].features = {{"f", 1, Pooling::kSum}};
    const auto load = [&] {
      Batch batch;
      make_batch_source(config, Split::kTrain, 0, 1)->load(0, batch);
    };
    if (weight == 0 || weight == largest) {
      EXPECT_NO_THROW(load());
    } else {
      EXPECT_EQ(error_of(load),
                fmt::format("{}: record 9 (counted from 0): weight {}; a weight is a finite number "
                            "of at least 0",
                            folder_ / "bad.h5", weight));
    }
  }
}

}  // namespace
}  // namespace dlrm
