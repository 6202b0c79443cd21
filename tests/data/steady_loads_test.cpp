// What batches allocate. Sources use lists and working memory of earlier batches again.
#include <cstdint>
#include <fstream>

#include <gtest/gtest.h>

#include "dlrm/data/batch_source.h"

#include "counted_allocations.h"
#include "dataset_fixture.h"

namespace dlrm {
namespace {

class SteadyLoads : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kCounted) GTEST_SKIP() << "a sanitizer allocates";
  }

  /// The allocations of each batch of the third epoch but the first, which prepares the epoch.
  static int64_t of_a_batch(const RunConfig& config) {
    const auto source = make_batch_source(config, Split::kTrain, 1, 2);
    const int64_t batches = source->plan().batches_per_epoch();
    Prefetcher prefetcher(*source, 0, 3 * batches, 0, 1);
    for (int64_t t = 0; t <= 2 * batches; ++t) prefetcher.next();
    const int64_t before = allocations;
    for (int64_t t = 1; t < batches; ++t) prefetcher.next();
    const int64_t made = allocations - before;
    EXPECT_EQ(made % (batches - 1), 0);
    return made / (batches - 1);
  }

  TemporaryFolder folder_;
};

TEST_F(SteadyLoads, OfDatasetsAllocateNothing) {
  SmallDataset data;
  data.samples = 600;
  data.weighted = true;
  data.write(folder_ / "a.h5");
  data.write(folder_ / "b.h5");
  RunConfig config = data.config(folder_ / "a.h5", 60);
  config.data.shuffle = false;
  for (const bool verify : {false, true}) {
    config.data.verify = verify;
    config.data.train = {folder_ / "a.h5"};
    EXPECT_EQ(of_a_batch(config), 0);
    config.data.train.push_back(folder_ / "b.h5");
    EXPECT_EQ(of_a_batch(config), 0);
  }
}

/// The order of a shuffled epoch is made when its first batch is announced, or one before it.
TEST_F(SteadyLoads, OfAnnouncedBatchesFindTheirOrder) {
  SmallDataset data;
  data.samples = 600;
  data.write(folder_ / "a.h5");
  const RunConfig config = data.config(folder_ / "a.h5", 60);
  const auto source = make_batch_source(config, Split::kTrain, 0, 1);
  Batch batch;
  const auto allocated_by = [&](int64_t t) {
    const int64_t before = allocations;
    source->load(t, batch);
    return allocations - before;
  };
  for (int64_t t = 0; t < 10; ++t) source->load(t, batch);  // so lists are long enough
  EXPECT_GT(allocated_by(10), 0);
  source->will_need(23);
  EXPECT_EQ(allocated_by(23), 0);
  EXPECT_EQ(allocated_by(30), 0);
  EXPECT_GT(allocated_by(40), 0);
}

TEST_F(SteadyLoads, OfSyntheticSamplesAllocateNothing) {
  RunConfig config = SmallDataset().config("", 60);
  config.data.source = DataKind::kSynthetic;
  config.data.train.clear();
  config.data.synthetic.samples = 600;
  EXPECT_EQ(of_a_batch(config), 0);
  config.data.source = DataKind::kReplay;
  EXPECT_EQ(of_a_batch(config), 0);
}

/// A block of text is read anew for each batch.
TEST_F(SteadyLoads, OfTextAllocateAsMuchForAnyNumberOfSamples) {
  {
    std::ofstream text(folder_ / "a");
    for (int line = 0; line < 600; ++line) {
      text << line % 2;
      for (int field = 0; field < 39; ++field) text << '\t' << line % 7;
      text << '\n';
    }
  }
  const auto allocations_of = [&](int64_t samples) {
    RunConfig config = SmallDataset().config(folder_ / "a", samples);
    config.data.source = DataKind::kCriteo;
    config.model.dense_features = 13;
    config.model.tables.resize(1);
    config.model.tables[0].features = {{"C7", 1, Pooling::kSum}};
    return of_a_batch(config);
  };
  EXPECT_EQ(allocations_of(60), allocations_of(200));
}

}  // namespace
}  // namespace dlrm
