#include <array>
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
    if (!announced[static_cast<size_t>(t)]) ++unannounced;
    std::this_thread::sleep_for(t % 3 == 0 ? slowest : std::chrono::microseconds(100));
    if (t == bad) throw usage_error("batch {} is bad", t);
    batch.t = t;
    batch.labels.assign(3, static_cast<float>(t));
  }
  void will_need(int64_t t) const override {
    ++hints;
    announced[static_cast<size_t>(t)] = true;
  }
  std::string describe() const override { return "slow"; }

  int64_t bad = -1;
  std::chrono::microseconds slowest{900};
  mutable std::atomic<int64_t> loads{0}, hints{0}, unannounced{0};
  mutable std::array<std::atomic<bool>, 1000> announced{};

 private:
  BatchPlan plan_{100, 10};
};

TEST(Prefetcher, BatchesComeInOrderForAnyNumberOfWorkers) {
  const SlowSource source;
  for (const int workers : {0, 1, 2, 5}) {
    for (const int depth : {1, 2, 7}) {
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
  EXPECT_EQ(source.hints, 3);
  EXPECT_GT(prefetcher.wait_seconds(), 900e-6);
  EXPECT_THROW(prefetcher.next(), Error);
  EXPECT_THROW(prefetcher.next(), Error);
}

TEST(Prefetcher, HasOneBatchAheadAtLeast) {
  const SlowSource source;
  for (const int least : {0, -3}) {
    Prefetcher prefetcher(source, 0, 4, 1, least);
    for (int64_t t = 0; t < 4; ++t) {
      const Batch* batch = prefetcher.next();
      ASSERT_NE(batch, nullptr);
      EXPECT_EQ(batch->t, t);
    }
    EXPECT_EQ(prefetcher.next(), nullptr);
  }
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

/// A worker that waits is woken once half of the batches can be loaded.
TEST(Prefetcher, AWorkerThatIsAheadLoadsSeveralBatchesAtOnce) {
  const SlowSource source;
  Prefetcher prefetcher(source, 0, 1000, 1, 8);
  const auto expect_loads = [&](int64_t loads) {
    for (int tries = 0; tries < 20000 && source.loads < loads; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    // The last one ends, others would be loaded, and the worker begins to wait.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(source.loads, loads);
  };
  expect_loads(8);
  for (int taken = 0; taken < 3; ++taken) prefetcher.next();
  expect_loads(8);
  prefetcher.next();
  expect_loads(12);
}

TEST(Prefetcher, WaitSecondsAreThoseOfTheCaller) {
  SlowSource source;
  source.slowest =
      std::chrono::milliseconds(300);  // the caller comes earlier on a busy machine too
  Prefetcher prefetcher(source, 0, 1, 1, 1);
  prefetcher.next();
  EXPECT_GT(prefetcher.wait_seconds(), 0.0);
}

TEST(Prefetcher, WaitSecondsAreAddedUp) {
  SlowSource source;
  source.slowest = std::chrono::milliseconds(100);
  Prefetcher prefetcher(source, 0, 2, 1, 1);
  prefetcher.next();
  const double first = prefetcher.wait_seconds();
  prefetcher.next();  // takes a thousandth of the time
  EXPECT_GE(prefetcher.wait_seconds(), first);
}

TEST(Prefetcher, EveryBatchIsAnnouncedOnceBeforeItIsLoaded) {
  for (const int workers : {0, 1, 3}) {
    const SlowSource source;
    Prefetcher prefetcher(source, 2, 12, workers, 4);
    while (prefetcher.next() != nullptr) {
    }
    EXPECT_EQ(source.hints, 10);
    EXPECT_EQ(source.loads, 10);
    EXPECT_EQ(source.unannounced, 0);
  }
}

}  // namespace
}  // namespace dlrm
