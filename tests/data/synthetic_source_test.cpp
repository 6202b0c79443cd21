#include <algorithm>
#include <array>
#include <map>

#include <gtest/gtest.h>

#include "dlrm/data/batch_source.h"

#include "dataset_fixture.h"

namespace dlrm {
namespace {

RunConfig synthetic_config(int64_t samples, int64_t batch) {
  SmallDataset shape;
  shape.dense = 3;
  RunConfig config = shape.config("", batch);
  config.data.train.clear();
  config.data.source = DataKind::kSynthetic;
  config.data.synthetic.samples = samples;
  return config;
}

/// All samples of an epoch, each as a vector of its values.
std::vector<std::vector<double>> samples_of(const RunConfig& config, Split split, int world) {
  std::vector<std::vector<double>> samples;
  Batch batch;
  const int64_t batches = make_batch_source(config, split, 0, world)->plan().batches_per_epoch();
  for (int64_t t = 0; t < batches; ++t) {
    for (int rank = 0; rank < world; ++rank) {
      make_batch_source(config, split, rank, world)->load(t, batch);
      const auto b = static_cast<size_t>(batch.size());
      for (size_t i = 0; i < b; ++i) {
        std::vector<double> values{batch.labels[i]};
        for (size_t c = 0; c < 3; ++c) values.push_back(batch.dense[i * 3 + c]);
        for (size_t f = 0; f < 3; ++f) {
          for (auto k = batch.offsets[f * b + i]; k < batch.offsets[f * b + i + 1]; ++k) {
            values.push_back(static_cast<double>(batch.ids[static_cast<size_t>(k)]));
          }
        }
        EXPECT_EQ(values.size(), 1u + 3 + 6);
        samples.push_back(values);
      }
    }
  }
  return samples;
}

TEST(SyntheticSource, ASampleIsTheSameAtEveryWorldAndBatchSize) {
  const auto alone = samples_of(synthetic_config(101, 10), Split::kTrain, 1);
  EXPECT_EQ(alone.size(), 101u);
  EXPECT_EQ(samples_of(synthetic_config(101, 10), Split::kTrain, 3), alone);
  EXPECT_EQ(samples_of(synthetic_config(101, 33), Split::kTrain, 2), alone);
  EXPECT_EQ(samples_of(synthetic_config(101, 200), Split::kTrain, 7), alone);
}

TEST(SyntheticSource, SeedAndSplitGiveOtherSamples) {
  RunConfig config = synthetic_config(50, 50);
  const auto train = samples_of(config, Split::kTrain, 1);
  EXPECT_NE(samples_of(config, Split::kTest, 1), train);
  config.data.synthetic.seed = 2;
  EXPECT_NE(samples_of(config, Split::kTrain, 1), train);
}

TEST(SyntheticSource, EachFeatureOfATableHasItsOwnHotnessAndIds) {
  RunConfig config = synthetic_config(20, 20);
  TableConfig& table = config.model.tables[0];
  table.features = {
      {"first", 2, Pooling::kSum}, {"second", 5, Pooling::kSum}, {"third", 2, Pooling::kSum}};
  Batch batch;
  make_batch_source(config, Split::kTrain, 0, 1)->load(0, batch);
  const std::vector<int64_t> hotness{2, 5, 2, 1, 3};  // those of the other tables follow
  ASSERT_EQ(batch.offsets.size(), 5u * 20 + 1);
  std::vector<std::vector<int64_t>> ids;
  for (size_t f = 0; f < 5; ++f) {
    for (size_t i = 20 * f; i < 20 * (f + 1); ++i) {
      EXPECT_EQ(batch.offsets[i + 1] - batch.offsets[i], hotness[f]) << f;
    }
    ids.emplace_back(batch.ids.begin() + batch.offsets[20 * f],
                     batch.ids.begin() + batch.offsets[20 * (f + 1)]);
  }
  EXPECT_NE(ids[0], ids[2]);
}

TEST(SyntheticSource, TheTestSplitIsATenthButAtLeastABatch) {
  const auto tests = [](int64_t samples, int64_t batch) {
    return make_batch_source(synthetic_config(samples, batch), Split::kTest, 0, 1)->plan().samples;
  };
  EXPECT_EQ(tests(1000, 10), 100);
  EXPECT_EQ(tests(1009, 10), 100);
  EXPECT_EQ(tests(1000, 100), 100);
  EXPECT_EQ(tests(1000, 101), 101);
  EXPECT_EQ(tests(50, 200), 50);
  EXPECT_EQ(make_batch_source(synthetic_config(50, 200), Split::kTrain, 0, 1)->plan().samples, 50);
}

TEST(SyntheticSource, LabelsAreFairAndDenseIsUniformToAHundred) {
  double labels = 0, dense = 0, highest = 0;
  const auto samples = samples_of(synthetic_config(20000, 20000), Split::kTrain, 1);
  for (const auto& sample : samples) {
    EXPECT_TRUE(sample[0] == 0 || sample[0] == 1);
    labels += sample[0];
    dense += sample[1];
    highest = std::max(highest, sample[1]);
    EXPECT_GE(sample[1], 0);
    EXPECT_LT(sample[1], 100);
  }
  EXPECT_NEAR(labels / 20000, 0.5, 0.015);
  EXPECT_NEAR(dense / 20000, 50, 1);
  EXPECT_GT(highest, 99);
}

TEST(ReplaySource, EveryTGivesTheFirstBatchWithItsOwnNumberAndEpoch) {
  RunConfig config = synthetic_config(95, 10);
  Batch first, later;
  make_batch_source(config, Split::kTrain, 1, 2)->load(0, first);
  config.data.source = DataKind::kReplay;
  const auto replay = make_batch_source(config, Split::kTrain, 1, 2);
  replay->load(23, later);
  EXPECT_EQ(later.t, 23);
  EXPECT_EQ(later.epoch, 2);
  EXPECT_EQ(later.ids, first.ids);
  EXPECT_EQ(later.dense, first.dense);
  EXPECT_EQ(replay->plan().samples_of(9).size(), later.global_size);
}

TEST(ReplaySource, ReplacesWhatABatchHeldBefore) {
  RunConfig config = synthetic_config(95, 10);
  const auto other = make_batch_source(config, Split::kTrain, 0, 1);
  config.data.source = DataKind::kReplay;
  const auto replay = make_batch_source(config, Split::kTrain, 0, 1);
  config.data.synthetic.seed += 1;
  const auto another_replay = make_batch_source(config, Split::kTrain, 0, 1);
  Batch first, reused;
  replay->load(0, first);
  for (const BatchSource* before : {other.get(), another_replay.get(), replay.get()}) {
    before->load(3, reused);
    replay->load(4, reused);
    EXPECT_EQ(reused.ids, first.ids);
    EXPECT_EQ(reused.dense, first.dense);
    EXPECT_EQ(reused.labels, first.labels);
  }
}

TEST(ReplaySource, AnEpochHasAsManyBatchesOfTheFirstsSize) {
  for (const auto& [samples, batch, size] :
       std::vector<std::array<int64_t, 3>>{{95, 10, 10}, {100, 10, 10}, {7, 10, 7}}) {
    RunConfig config = synthetic_config(samples, batch);
    EXPECT_EQ(make_batch_source(config, Split::kTrain, 0, 1)->describe(),
              fmt::format("synthetic: {} samples, alpha 1.05", samples));
    config.data.source = DataKind::kReplay;
    const auto replay = make_batch_source(config, Split::kTrain, 0, 1);
    EXPECT_EQ(
        replay->describe(),
        fmt::format("the first batch, repeated, of synthetic: {} samples, alpha 1.05", samples));
    EXPECT_EQ(replay->plan().batch_size, size);
    EXPECT_EQ(replay->plan().samples, (samples + batch - 1) / batch * size);
    EXPECT_EQ(replay->plan().batches_per_epoch(), (samples + batch - 1) / batch);
  }
}

TEST(ReplaySource, OfAFileRepeatsItsFirstBatchInTrainingOnly) {
  const TemporaryFolder folder;
  const SmallDataset data;
  data.write(folder / "a.h5");
  RunConfig config = data.config(folder / "a.h5", 4);
  config.data.test = config.data.train;
  config.data.source = DataKind::kReplay;
  config.data.shuffle = false;
  const auto first_number = [&](Split split, int64_t t) {
    Batch batch;
    make_batch_source(config, split, 0, 1)->load(t, batch);
    EXPECT_EQ(batch.t, t);
    return batch.dense[0];
  };
  EXPECT_EQ(first_number(Split::kTrain, 0), 0);
  EXPECT_EQ(first_number(Split::kTrain, 1), 0);
  EXPECT_EQ(first_number(Split::kTest, 0), 0);
  EXPECT_EQ(first_number(Split::kTest, 1), 4);
  config.data.test.clear();
  EXPECT_EQ(make_batch_source(config, Split::kTest, 0, 1), nullptr);
}

}  // namespace
}  // namespace dlrm
