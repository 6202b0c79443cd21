// What a placement counts, and which fast memory its batches need.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "placing.h"

namespace dlrm::testing {
namespace {

TEST_F(Placing, CountsWhatItDoes) {
  calls_.may_finish.open();
  place({1, 2, 2}, {3});
  step(true);
  place({2, 4, 5}, {3, 3});
  step(true);
  placement_.settle();  // row 1 is written
  place({1, 6, 7});     // rows that were updated leave
  step(false);
  placement_.settle();
  const CacheCounters counters = placement_.counters();
  EXPECT_EQ(counters.accesses, 4 + 5 + 3);
  EXPECT_EQ(counters.rows, 3 + 4 + 3);
  EXPECT_EQ(counters.misses, 3 + 2 + 3);
  EXPECT_EQ(calls_.rows_written, 1 + 3);
  EXPECT_EQ(counters.reads, 1);  // row 1 was written
  EXPECT_EQ(counters.middle_reads, 100 + 1000) << "of both stores";
  EXPECT_EQ(counters.fetched_bytes, counters.reads * 16);
  EXPECT_EQ(counters.written_bytes, (1 + 3) * 16);
  EXPECT_GT(counters.fetch_seconds, 0);
  EXPECT_GT(counters.write_seconds, 0);
  EXPECT_GT(counters.exposed_seconds, 0);
}

// Otherwise a period could have more misses than rows.
TEST_F(Placing, CountsRowsAndMissesOfABatchTogetherWhenItsStepEnds) {
  place({1, 2});
  place({3});
  EXPECT_EQ(placement_.counters().rows + placement_.counters().misses, 0);
  calls_.may_finish.open();
  for (const int64_t rows : {2, 3}) {
    step(true);
    EXPECT_EQ(placement_.counters().rows, rows);
    EXPECT_EQ(placement_.counters().misses, rows);
  }
}

TEST_F(Placing, WritesAreDoneWhenItIsSettled) {
  calls_.may_finish.open();
  place({1, 2, 3});
  step(true);
  calls_.may_finish.close();
  place({4});                                                 // row 1 leaves
  while (calls_.rows_written < 1) std::this_thread::yield();  // it is past the gate
  calls_.may_write.close();
  place({5, 6});  // rows 2 and 3 leave when row 4 was fetched
  std::atomic<bool> opened = false;
  std::thread opener([&] {
    calls_.may_finish.open();
    while (calls_.writes_begun < 2) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // time for a mistake to show
    opened = true;
    calls_.may_write.open();
  });
  placement_.settle();
  EXPECT_TRUE(opened);
  EXPECT_EQ(calls_.rows_written, 3);
  opener.join();
}

// Its first row has its slot long before.
TEST_F(Placing, ABatchHasItsRowsWhenAllPartsOfItHaveArrived) {
  calls_.may_finish.open();
  place({0, 1});
  std::vector<int64_t> full{2, 3, 4};
  const int64_t batch = placement_.place({{0, full.data(), 3, false}});
  placement_.settle();
  ASSERT_FALSE(placement_.placed(batch));
  calls_.may_finish.close();
  step(false);
  placement_.await_placed(batch);
  std::atomic<bool> opened = false;
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // time for a mistake to show
    opened = true;
    calls_.may_finish.open();
  });
  placement_.await();
  EXPECT_TRUE(opened);
  opener.join();
}

// A batch fits into just as many slots. Of several caches, the one decides that needs most.
TEST_F(Placing, CountsTheFastMemoryOfABatchThatIsNotPlaced) {
  std::vector<int64_t> three{1, 2, 3, 2}, five{9, 8, 7, 6, 5, 5}, more{5, 4};
  const auto needed = [&](std::vector<std::pair<int, std::vector<int64_t>*>> groups) {
    std::vector<PlacedIds> ids;
    for (auto& [cache, rows] : groups)
      ids.push_back({cache, rows->data(), std::ssize(*rows), false});
    return placement_.count_fast_needed(ids).bytes;
  };
  EXPECT_EQ(needed({{0, &three}, {1, &three}}), 0);
  EXPECT_EQ(needed({{0, &three}, {1, &five}}), 5);
  EXPECT_EQ(needed({{0, &five}, {1, &three}}), 5);
  EXPECT_EQ(needed({{0, &five}, {1, &three}, {1, &more}, {0, &more}}), 6);
  EXPECT_EQ(three[1], 2) << "nothing is placed";
}

}  // namespace
}  // namespace dlrm::testing
