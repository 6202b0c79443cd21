#include <filesystem>

#include <gtest/gtest.h>

#include "dlrm/data/batch_source.h"
#include "dlrm/data/dataset_file.h"

#include "dataset_fixture.h"

namespace dlrm {
namespace {

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
  EXPECT_EQ(usage_error_of([&] { make_batch_source(config(), Split::kTrain, 0, 1); }),
            folder_ / "data/a.h5" + " and " + folder_ / "data/c.h5" +
                " do not belong together: only " + folder_ / "data/a.h5" + " has /weight");
  std::filesystem::rename(folder_ / "data/c.h5", folder_ / "data/0.h5");
  EXPECT_EQ(usage_error_of([&] { Dataset(folder_ / "data"); }),
            folder_ / "data/0.h5" + " and " + folder_ / "data/a.h5" +
                " do not belong together: only " + folder_ / "data/a.h5" + " has /weight");
  std::filesystem::remove(folder_ / "data/0.h5");
  data_.weighted = true;
  data_.samples = 0;  // without a sample, but with the column
  data_.write(folder_ / "data/c.h5");
  EXPECT_EQ(Dataset(folder_ / "data").samples(), 73);
}

}  // namespace
}  // namespace dlrm
