// What a placement counts, and which fast memory its batches need.
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "placing.h"

namespace dlrm::testing {
namespace {

using ::testing::ElementsAre;

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

/// What became of the batches of a course.
struct Course {
  std::vector<std::vector<int64_t>> ids;
  std::vector<int64_t> needed;
  std::vector<int64_t> counts;
  bool operator==(const Course&) const = default;
};

class PlacingGroups : public Placing {
 protected:
  static constexpr int64_t kMany = 4;  // slots of each of four caches

  /// Places batches of several groups for each cache, wide and narrow ones. The third one waits for
  /// slots of the second, and the fourth does not fit.
  Course course_of(RowTools& tools, std::unique_ptr<RecordStream> stream) {
    RowPlacement placement(true, std::move(stream));
    for (int c = 0; c < 4; ++c) {
      TableConfig table;
      table.rows = kRows;
      table.dim = 4;
      const RowShape shape(table, {}, 1, {0, kRows}, {0, 4});
      placement.add(
          std::make_unique<RowCache>(
              tools, placement.stream(), std::vector<RowShape>{shape}, kMany, make_clock(),
              [](const SlotRecords& layout) { return make_memory_records(kRows, layout.bytes()); }),
          [c](int64_t slots) { return FastNeed{100 * slots + c}; });
    }
    const std::vector<std::vector<std::pair<int, std::vector<int64_t>>>> batches = {
        {{0, {1, 2, 1}}, {1, {9}}, {3, {}}, {0, {2, 3}}, {2, {5, 5, 5}}},
        {{3, {0, 19}}, {0, {2, 3}}, {3, {19, 18, 17}}, {1, {9, 8}}},
        {{3, {1, 19}}, {1, {7, 9}}, {3, {2}}, {0, {2, 6}}},
        {{0, {1, 2, 3}},
         {1, {1, 2, 3, 4}},
         {0, {4, 5}},
         {2, {0, 1, 2}},
         {1, {4, 5}},
         {0, {5, 6, 1}},
         {2, {2, 3}}},
        {{2, {0, 4}}, {1, {6, 6, 5}}}};
    Course course;
    std::deque<std::vector<int32_t>> narrow;
    std::deque<std::vector<int64_t>> wide;
    int64_t oldest = 0;
    for (const auto& batch : batches) {
      std::vector<PlacedIds> groups;
      for (const auto& [cache, rows] : batch) {
        const bool is_narrow = groups.size() % 2 == 0;
        if (is_narrow) {
          narrow.emplace_back(rows.begin(), rows.end());
          groups.push_back({cache, narrow.back().data(), std::ssize(rows), true});
        } else {
          wide.push_back(rows);
          groups.push_back({cache, wide.back().data(), std::ssize(rows), false});
        }
      }
      const int64_t number = placement.place(groups);
      for (placement.settle(); !placement.placed(number); placement.settle()) {
        placement.await();
        placement.release(true);
        ++oldest;
      }
      course.needed.push_back(placement.fast_needed(number).bytes);
      course.needed.push_back(oldest);
      for (const PlacedIds& group : groups) {
        std::vector<int64_t>& ids = course.ids.emplace_back();
        each_id(group, [&](int64_t id) { ids.push_back(id); });
      }
    }
    placement.settle();
    for (; oldest < std::ssize(batches); ++oldest) placement.release(true);
    const CacheCounters c = placement.counters();
    course.counts = {c.accesses, c.rows, c.misses, c.reads, c.fetched_bytes, c.written_bytes};
    return course;
  }
};

TEST_F(PlacingGroups, NeedTheFastMemoryOfAllGroupsOfACache) {
  const Course course = course_of(tools_, nullptr);
  // Cache 0 needs slots for six rows, cache 1 for five, and cache 2 has room.
  EXPECT_THAT(course.needed, ElementsAre(0, 0, 0, 0, 0, 2, 600, 3, 0, 4));
  EXPECT_THAT(course.ids[0], ElementsAre(0, 1, 0));
  EXPECT_THAT(course.ids[3], ElementsAre(1, 2));
  EXPECT_EQ(course.counts[0], 9 + 9 + 7 + 19 + 5);
}

TEST_F(PlacingGroups, OfAllCachesAtTheSameTimeArePlacedAlike) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  Rank gpu(*comm_, OnGpu());
  RowTools tools(gpu.context, *gpu.ops);
  const Course on_gpu =
      course_of(tools, std::make_unique<RecordStream>(*gpu.device, *gpu.stream, 2));
  const Course on_cpu = course_of(tools_, nullptr);
  EXPECT_EQ(on_gpu.needed, on_cpu.needed);
  EXPECT_EQ(on_gpu.counts, on_cpu.counts);
  EXPECT_EQ(on_gpu.ids, on_cpu.ids);
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
