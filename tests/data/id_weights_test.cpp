#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include <gtest/gtest.h>

#include "dlrm/data/batch_source.h"
#include "dlrm/data/dataset_file.h"
#include "dlrm/hdf5/file.h"

#include "dataset_fixture.h"

namespace dlrm {
namespace {

/// Two files whose ids in `three` and `bags` have weights.
class IdWeights : public ::testing::Test {
 protected:
  IdWeights() {
    std::filesystem::create_directory(folder_ / "data");
    data_.id_weights = true;
    data_.samples = 53;
    data_.write(folder_ / "data/a.h5");
    SmallDataset more = data_;
    more.first = 53;
    more.samples = 20;
    more.write(folder_ / "data/b.h5");
  }

  RunConfig config() const { return data_.config(folder_ / "data", 16); }

  /// Expects that each id of the batch has the weight of its sample and place.
  static void expect_own_weights(const Batch& batch) {
    const auto b = static_cast<size_t>(batch.size());
    ASSERT_EQ(batch.id_weights.size(), batch.ids.size());
    for (size_t bag = 0; bag < 3 * b; ++bag) {
      const bool weighted = bag / b != 1;  // the features are bags, one, three
      const auto sample = static_cast<int64_t>(batch.dense[2 * (bag % b)]);
      for (int64_t k = batch.offsets[bag]; k < batch.offsets[bag + 1]; ++k) {
        const float weight = SmallDataset::id_weight(sample, k - batch.offsets[bag]);
        EXPECT_EQ(batch.id_weights[static_cast<size_t>(k)], weighted ? weight : 1.0f);
      }
    }
  }

  TemporaryFolder folder_;
  SmallDataset data_;
};

TEST_F(IdWeights, FollowTheirIdsInAnyOrderOnAnyRank) {
  for (const bool shuffle : {false, true}) {
    for (const int world : {1, 3}) {
      RunConfig config = this->config();
      config.data.shuffle = shuffle;
      Batch batch;
      for (int rank = 0; rank < world; ++rank) {
        const auto source = make_batch_source(config, Split::kTrain, rank, world);
        for (int64_t t = 0; t < source->plan().batches_per_epoch(); ++t) {
          source->load(t, batch);
          expect_own_weights(batch);
        }
      }
    }
  }
}

TEST_F(IdWeights, StandBesideSeveralLabels) {
  data_.labels = 2;
  data_.label = LabelType::kFloat32;
  data_.write(folder_ / "tasks.h5");
  const RunConfig config = data_.config(folder_ / "tasks.h5", 16);
  for (const int world : {1, 3}) {
    Batch batch;
    for (int rank = 0; rank < world; ++rank) {
      const auto source = make_batch_source(config, Split::kTrain, rank, world);
      for (int64_t t = 0; t < source->plan().batches_per_epoch(); ++t) {
        source->load(t, batch);
        expect_own_weights(batch);
        const auto b = static_cast<size_t>(batch.size());
        ASSERT_EQ(batch.labels.size(), 2 * b);
        for (size_t k = 0; k < 2 * b; ++k) {
          const auto sample = static_cast<int64_t>(batch.dense[2 * (k % b)]);
          const float label = data_.label_of(sample, static_cast<int64_t>(k / b));
          if (std::isnan(label)) {
            EXPECT_TRUE(std::isnan(batch.labels[k]));
          } else {
            EXPECT_EQ(batch.labels[k], label);
          }
        }
      }
    }
  }
}

TEST_F(IdWeights, AreThereOnlyIfTheConfigAsksForThem) {
  RunConfig config = this->config();
  for (TableConfig& table : config.model.tables) table.features[0].weights = false;
  Batch batch;
  make_batch_source(config, Split::kTrain, 0, 1)->load(0, batch);
  EXPECT_TRUE(batch.id_weights.empty());
  EXPECT_FALSE(batch.ids.empty());
}

TEST_F(IdWeights, OfIdsThatAreLeftOutAreLeftOutToo) {
  data_.samples = 73;
  data_.rows_bags = 200;  // no id is taken modulo
  data_.write(folder_ / "whole.h5");
  {
    hdf5::File file = hdf5::File::open(folder_ / "whole.h5", hdf5::File::Access::kReadWrite);
    file.dataset("/sparse/bags/ids").set_integer("rows", 40);
    file.close();
  }
  RunConfig config = data_.config(folder_ / "whole.h5", 73);
  config.data.invalid_id = InvalidId::kDrop;
  config.data.shuffle = false;
  config.data.verify = false;
  Batch batch;
  make_batch_source(config, Split::kTrain, 0, 1)->load(0, batch);
  EXPECT_GT(batch.dropped, 0);
  ASSERT_EQ(batch.id_weights.size(), batch.ids.size());
  for (int64_t i = 0; i < 73; ++i) {
    const int64_t begin = batch.offsets[static_cast<size_t>(i)];
    EXPECT_EQ(batch.offsets[static_cast<size_t>(i) + 1] - begin,
              std::max<int64_t>(0, std::min(i % 4, 40 - i)));
    if (batch.offsets[static_cast<size_t>(i) + 1] == begin) continue;
    EXPECT_EQ(batch.id_weights[static_cast<size_t>(begin)], SmallDataset::id_weight(i, 0));
  }
}

TEST_F(IdWeights, AFileWithoutThemIsRefusedIfTheConfigAsksForThem) {
  data_.id_weights = false;
  data_.write(folder_ / "plain.h5");
  data_.id_weights = true;
  EXPECT_EQ(usage_error_of([&] {
              make_batch_source(data_.config(folder_ / "plain.h5", 16), Split::kTrain, 0, 1);
            }),
            folder_ / "plain.h5" +
                ": feature bags has no weights (/sparse/bags/weights), the config asks for them");
  std::filesystem::rename(folder_ / "plain.h5", folder_ / "data/c.h5");
  EXPECT_EQ(usage_error_of([&] { Dataset(folder_ / "data"); }),
            folder_ / "data/a.h5" + " and " + folder_ / "data/c.h5" +
                " do not belong together: only " + folder_ / "data/a.h5" +
                " has /sparse/bags/weights");
}

TEST_F(IdWeights, OneThatIsNotFiniteIsNamedWithItsRecord) {
  const std::string path = folder_ / "data/b.h5";
  const std::string whole = bytes_of_file(path);
  const float weight = SmallDataset::id_weight(57, 2), bad = std::numeric_limits<float>::infinity();
  const size_t at = whole.find({reinterpret_cast<const char*>(&weight), 4});
  ASSERT_NE(at, std::string::npos);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(at));
  file.write(reinterpret_cast<const char*>(&bad), 4);
  file.close();
  RunConfig config = data_.config(path, 20);
  config.data.shuffle = false;
  Batch batch;
  const auto load = [&] { make_batch_source(config, Split::kTrain, 0, 1)->load(0, batch); };
  EXPECT_NE(usage_error_of(load).find("/weights is damaged in samples 0 to 19"), std::string::npos);
  config.data.verify = false;
  EXPECT_EQ(usage_error_of(load),
            path +
                ": record 4 (counted from 0), feature three: weight inf of an id is not a finite "
                "number");
}

TEST_F(IdWeights, AnotherNumberOfThemThanOfIdsIsRefused) {
  data_.id_weights = false;
  const std::string path = folder_ / "short.h5";
  data_.write(path);
  {
    hdf5::File file = hdf5::File::open(path, hdf5::File::Access::kReadWrite);
    file.create_dataset("/sparse/three/weights", hdf5::Type::kFloat32, {data_.samples * 3 - 1});
    file.close();
  }
  EXPECT_EQ(usage_error_of([&] { DatasetFile file(path); }),
            path + ": /sparse/three/weights has 158 elements, one for each of 159 ids is needed");
}

TEST(SyntheticIdWeights, AreThoseOfTheirSamplesOnAnyRank) {
  RunConfig config;
  config.data.source = DataKind::kSynthetic;
  config.data.synthetic.samples = 100;
  config.train.global_batch_size = 20;
  config.model.tables.resize(2);
  config.model.tables[0].rows = config.model.tables[1].rows = 50;
  config.model.tables[0].features = {{"plain", 2}};
  config.model.tables[1].features = {{"weighted", 3, Pooling::kSum, true}};
  Batch whole, part;
  make_batch_source(config, Split::kTrain, 0, 1)->load(1, whole);
  make_batch_source(config, Split::kTrain, 1, 4)->load(1, part);
  ASSERT_EQ(whole.id_weights.size(), 100u);
  for (size_t k = 0; k < 40; ++k) EXPECT_EQ(whole.id_weights[k], 1);
  for (size_t k = 40; k < 100; ++k) {
    EXPECT_GE(whole.id_weights[k], 0);
    EXPECT_LT(whole.id_weights[k], 1);
  }
  EXPECT_NE(whole.id_weights[40], whole.id_weights[41]);
  for (size_t k = 0; k < 15; ++k) EXPECT_EQ(part.id_weights[10 + k], whole.id_weights[40 + 15 + k]);
}

}  // namespace
}  // namespace dlrm
