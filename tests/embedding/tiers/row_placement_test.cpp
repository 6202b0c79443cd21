#include "embedding/tiers/row_placement.h"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/core/error.h"

#include "error_of.h"
#include "placing.h"

namespace dlrm::testing {
namespace {

TEST_F(Placing, AReadThatTakesLongDoesNotHoldUpThatOfAnotherCache) {
  place({1, 2}, {3});
  calls_.reading.await();
  EXPECT_EQ(calls_.reads_under_way, 2);
  calls_.may_finish.open();
  placement_.settle();
  EXPECT_EQ(calls_.reads_under_way, 0);
}

TEST_F(Placing, SettlesWhenItsMovesAreDone) {
  std::atomic<bool> opened = false;
  place({1, 2});
  std::thread opener([&] {
    calls_.reading.await();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    opened = true;
    calls_.may_finish.open();
  });
  placement_.settle();
  EXPECT_TRUE(opened);
  opener.join();
}

TEST_F(Placing, SettlingEndsWithTheErrorOfAMove) {
  calls_.fails = true;
  place({1, 2});
  std::thread opener([&] {
    calls_.reading.await();
    calls_.may_finish.open();
  });
  EXPECT_EQ(error_of([&] { placement_.settle(); }), "the disk of a is gone");
  opener.join();
}

TEST_F(Placing, ABatchWithoutAnUpdateWritesNothing) {
  calls_.may_finish.open();
  place({1, 2, 3});
  step(false);
  place({4, 5, 6});
  step(true);
  placement_.settle();
  EXPECT_EQ(calls_.rows_written, 0);
  place({1, 2, 3});
  step(false);
  placement_.settle();
  EXPECT_EQ(calls_.rows_written, 3);
}

TEST_F(Placing, RowsOfDroppedBatchesMayComeBackAtOnce) {
  place({1});
  calls_.reading.await();
  place({2, 3});
  for (int dropped = 0; dropped < 2; ++dropped) placement_.release(false);
  place({4, 5, 6});
  placement_.release(false);
  place({2, 3, 7});
  calls_.may_finish.open();
  step(false);
  EXPECT_EQ(calls_.rows_read_twice, 0);
  const std::vector<float> after = weights(0);
  rows_of(0)->initialise();
  EXPECT_EQ(after, weights(0));
}

// Batches that were in flight with one that changed rows count as changed, dropped ones too.
TEST_F(Placing, ASlotIsFilledBeforeTheRowOfADroppedBatchLeavesIt) {
  calls_.may_finish.open();
  const std::vector<float> before = weights(0);
  place({1});
  placement_.await();
  calls_.may_finish.close();
  place({2});
  place({3});
  step(true);
  for (int dropped = 0; dropped < 2; ++dropped) placement_.release(false);
  place({4, 5, 6});
  calls_.may_finish.open();
  step(false);
  EXPECT_EQ(weights(0), before);
}

// The one that polls goes on, and learns about the error.
TEST_F(Placing, ABatchThatAnErrorHoldsUpCountsAsPlaced) {
  place({0, 1});
  std::vector<int64_t> full{2, 3, 4};
  const int64_t batch = placement_.place({{0, full.data(), 3, false}});
  EXPECT_FALSE(placement_.placed(batch));
  calls_.fails = true;
  calls_.may_finish.open();
  for (int i = 0; i < 3000 && !placement_.placed(batch); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(placement_.placed(batch));
  EXPECT_THROW(placement_.await_placed(batch), Error);
}

// Row 2 is placed before the batch waits for slots, and is not counted again.
TEST_F(Placing, ABatchThatFillsItsCacheWaitsForTheOneBefore) {
  calls_.may_finish.open();
  place({0, 1});
  std::vector<int64_t> full{2, 3, 4, 2};
  const int64_t batch = placement_.place({{0, full.data(), 4, false}});
  placement_.settle();
  ASSERT_FALSE(placement_.placed(batch));
  step(false);
  placement_.settle();  // it waits no longer
  EXPECT_TRUE(placement_.placed(batch));
  EXPECT_EQ(placement_.fast_needed(batch).bytes, 0);
}

// Rows that wait to be written take memory. A write may wait for the reads under way, so that the
// last of the batches gets its rows although its own ones are not written.
TEST_F(Placing, FewWritesWaitForTheStore) {
  constexpr int kBatches = 200;
  calls_.may_finish.open();
  calls_.may_write.close();
  std::atomic<int> steps = 0;
  std::thread stepper([&] {
    for (int64_t batch = 0; batch < kBatches; ++batch) {
      const int64_t row = batch % 6 * 3;
      place({row, row + 1, row + 2});
      step(true);
      ++steps;
    }
  });
  while (calls_.writes_begun == 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // time for a mistake to show
  EXPECT_LE(steps, kBatches / 4);
  calls_.may_write.open();
  stepper.join();
  placement_.settle();
  EXPECT_EQ(calls_.rows_written, (kBatches - 1) * 3) << "the first one writes nothing";
}

TEST_F(Placing, EndsWithTheErrorOfAWrite) {
  calls_.may_finish.open();
  calls_.write_fails = true;
  place({1, 2, 3});
  step(true);
  std::vector<int64_t> four{4};
  placement_.place({{0, four.data(), 1, false}});
  EXPECT_EQ(error_of([&] { placement_.settle(); }), "the disk of a is full");
  EXPECT_EQ(error_of([&] { placement_.await(); }), "the disk of a is full");
  EXPECT_EQ(calls_.rows_written, 0);
}

// A read fails while a write waits, which fails afterwards.
TEST_F(Placing, OfSeveralErrorsTheFirstIsTold) {
  calls_.may_finish.open();
  place({1, 2, 3});
  step(true);
  calls_.may_write.close();
  calls_.fails = calls_.write_fails = true;
  std::vector<int64_t> four{4};
  placement_.place({{0, four.data(), 1, false}});
  EXPECT_EQ(error_of([&] { placement_.await(); }), "the disk of a is gone");
  calls_.may_write.open();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // time for a mistake to show
  EXPECT_EQ(error_of([&] { placement_.settle(); }), "the disk of a is gone");
}

TEST_F(Placing, EndsEveryReadIfOneFails) {
  calls_.fails = true;
  calls_.may_finish.open();
  EXPECT_EQ(error_of([&] {
              place({1}, {2});
              placement_.await();
            }),
            "the disk of a is gone");
  EXPECT_EQ(calls_.reads_under_way, 0);
  // Nobody waits for batches that come later.
  EXPECT_THROW(place({3}, {4}), Error);
  EXPECT_THROW(placement_.settle(), Error);
}

}  // namespace
}  // namespace dlrm::testing
