#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "dlrm/core/error.h"
#include "dlrm/data/batch_source.h"

namespace dlrm {
namespace {

/// Batches that take some time to load. Some take longer. Batch `bad` fails.
class SlowSource : public BatchSource {
 public:
  const BatchPlan& plan() const override { return plan_; }
  void load(int64_t t, Batch& batch) const override {
    ++loads;
    std::this_thread::sleep_for(t % 3 == 0 ? slowest : std::chrono::microseconds(100));
    if (t == bad) throw usage_error("batch {} is bad", t);
    batch.t = t;
    batch.labels.assign(3, static_cast<float>(t));
  }
  std::string describe() const override { return "slow"; }

  int64_t bad = -1;
  std::chrono::microseconds slowest{900};
  mutable std::atomic<int64_t> loads{0};

 private:
  BatchPlan plan_{100, 10};
};

TEST(Prefetcher, BatchesComeInOrderForAnyNumberOfWorkers) {
  const SlowSource source;
  for (const int workers : {0, 1, 2, 5}) {
    for (const int depth : {-3, 0, 1, 7}) {
      Prefetcher prefetcher(source, 4, 44, workers, depth);
      for (int64_t t = 4; t < 44; ++t) {
        const Batch* batch = prefetcher.next();
        ASSERT_NE(batch, nullptr);
        EXPECT_EQ(batch->t, t);
        EXPECT_EQ(batch->labels[2], static_cast<float>(t));
      }
      EXPECT_EQ(prefetcher.next(), nullptr);
      EXPECT_EQ(prefetcher.next(), nullptr);
    }
  }
}

TEST(Prefetcher, WithoutWorkersTheCallerLoadsEachBatchWhenItComes) {
  SlowSource source;
  source.bad = 3;
  Prefetcher prefetcher(source, 0, 5, 0, 4);
  EXPECT_EQ(source.loads, 0);
  for (int64_t t = 0; t < 3; ++t) {
    EXPECT_EQ(prefetcher.next()->t, t);
    EXPECT_EQ(source.loads, t + 1);
  }
  EXPECT_GT(prefetcher.wait_seconds(), 900e-6);
  EXPECT_THROW(prefetcher.next(), Error);
  EXPECT_THROW(prefetcher.next(), Error);
}

TEST(Prefetcher, AnEmptyRangeEndsAtOnce) {
  const SlowSource source;
  Prefetcher prefetcher(source, 5, 5, 2, 3);
  EXPECT_EQ(prefetcher.next(), nullptr);
}

TEST(Prefetcher, AnErrorIsThrownInPlaceOfItsBatch) {
  SlowSource source;
  source.bad = 6;
  Prefetcher prefetcher(source, 0, 20, 3, 8);
  for (int64_t t = 0; t < 6; ++t) EXPECT_EQ(prefetcher.next()->t, t);
  EXPECT_THROW(prefetcher.next(), Error);
  EXPECT_THROW(prefetcher.next(), Error);
}

TEST(Prefetcher, DestructionWaitsForBatchesBeingLoaded) {
  const SlowSource source;
  for (int64_t taken = 0; taken < 4; ++taken) {
    Prefetcher prefetcher(source, 0, 1000, 3, 5);
    for (int64_t t = 0; t < taken; ++t) prefetcher.next();
  }
  EXPECT_LT(source.loads, 100);
}

TEST(Prefetcher, TheDepthLimitsTheBatchesLoadedAhead) {
  const SlowSource source;
  Prefetcher prefetcher(source, 0, 1000, 4, 3);
  prefetcher.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_LE(source.loads, 4);  // the batch handed out and three more
}

TEST(Prefetcher, WaitSecondsAreThoseOfTheCaller) {
  SlowSource source;
  source.slowest =
      std::chrono::milliseconds(300);  // the caller comes earlier on a busy machine too
  Prefetcher prefetcher(source, 0, 1, 1, 1);
  prefetcher.next();
  EXPECT_GT(prefetcher.wait_seconds(), 0.0);
}

}  // namespace
}  // namespace dlrm
