#include "embedding/tiers/row_placement.h"

#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>

#include <gmock/gmock.h>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/error.h"

#include "embedding/training.h"

namespace dlrm::testing {
namespace {

using ::testing::ElementsAre;

class Gate {
 public:
  void open() { set(true); }
  void close() { set(false); }
  void await() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_; });
  }

 private:
  void set(bool is_open) {
    {
      const std::lock_guard lock(mutex_);
      open_ = is_open;
    }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

/// What the stores of a placement were asked for.
struct Calls {
  Calls() { may_write.open(); }
  void add(const std::string& call) {
    const std::lock_guard lock(mutex);
    list.push_back(call);
  }
  std::mutex mutex;
  std::vector<std::string> list;
  std::atomic<int64_t> rows_written = 0, rows_read_twice = 0;
  std::atomic<bool> fails = false;
  Gate reading, may_finish;  ///< the first read that is to be finished, and what it waits for
  Gate may_write;            ///< what writes wait for
};

class WatchedRecords final : public RecordStore {
 public:
  WatchedRecords(std::string name, int64_t rows, int64_t record_bytes, Calls& calls)
      : name_(std::move(name)), calls_(calls), store_(make_memory_records(rows, record_bytes)) {}

  std::unique_ptr<RecordRead> start_read(View<const int64_t> rows, std::byte* out,
                                         uint8_t* written) override {
    calls_.add("start " + name_);
    calls_.rows_read_twice +=
        static_cast<int64_t>(rows.size() - std::set<int64_t>(rows.begin(), rows.end()).size());
    return std::make_unique<Read>(*this, store_->start_read(rows, out, written));
  }
  void write(View<const int64_t> rows, const std::byte* records) override {
    calls_.may_write.await();
    calls_.rows_written += static_cast<int64_t>(rows.size());
    store_->write(rows, records);
  }
  void clear() override { store_->clear(); }
  TierTraffic traffic() const override { return store_->traffic(); }
  std::string description() const override { return "watched"; }

 private:
  struct Read final : RecordRead {
    Read(WatchedRecords& of, std::unique_ptr<RecordRead> watched)
        : records(of), read(std::move(watched)) {}
    ~Read() override {
      if (!finished) records.calls_.add("end " + records.name_);
    }
    void finish() override {
      records.calls_.reading.open();
      records.calls_.may_finish.await();
      records.calls_.add("finish " + records.name_);
      read->finish();
      if (records.calls_.fails) throw run_error("the disk of {} is gone", records.name_);
      finished = true;
    }
    WatchedRecords& records;
    const std::unique_ptr<RecordRead> read;
    bool finished = false;
  };

  const std::string name_;
  Calls& calls_;
  const std::unique_ptr<RecordStore> store_;
};

/// Caches "a" and "b" of 20 rows, with slots for 3.
class Placing : public ::testing::Test {
 protected:
  static constexpr int64_t kRows = 20;
  static constexpr int64_t kSlots = 3;

  Placing() {
    for (const char* name : {"a", "b"}) {
      TableConfig table;
      table.name = name;
      table.rows = kRows;
      table.dim = 4;
      const RowShape shape(table, {}, 1, {0, kRows}, {0, 4});
      placement_.add(std::make_unique<RowCache>(tools_, nullptr, std::vector<RowShape>{shape},
                                                kSlots, make_clock(),
                                                [&](const SlotRecords& layout) {
                                                  return std::make_unique<WatchedRecords>(
                                                      name, kRows, layout.bytes(), calls_);
                                                }),
                     [](int64_t slots) { return FastNeed{slots}; });
    }
  }
  ~Placing() override {
    calls_.may_finish.open();
    calls_.may_write.open();
  }

  /// Places a batch of rows of each cache. Its ids stay valid.
  int64_t place(std::vector<int64_t> a, std::vector<int64_t> b = {}) {
    const auto keep = [&](int cache, std::vector<int64_t>& rows) {
      ids_.push_back(std::move(rows));
      return PlacedIds{cache, ids_.back().data(), static_cast<int64_t>(ids_.back().size()), false};
    };
    const PlacedIds first = keep(0, a), second = keep(1, b);
    const int64_t batch = placement_.place({first, second});
    placement_.await_placed(batch);
    return batch;
  }
  /// A step that has its rows.
  void step(bool updates) {
    placement_.await();
    placement_.release(updates);
  }
  std::unique_ptr<RowStore> rows_of(int cache) {
    return placement_.cache(cache).rows_of(0, [this] { placement_.settle(); });
  }
  /// The weights of all rows, wherever they are.
  std::vector<float> weights(int cache) {
    std::vector<float> values(kRows * 4);
    rows_of(cache)->read(RowArray::kWeights, 0, kRows, values.data());
    return values;
  }

  Calls calls_;
  std::unique_ptr<Communicator> comm_ = make_self_comm();
  Rank rank_{*comm_};
  RowTools tools_{rank_.context, *rank_.ops};
  std::deque<std::vector<int64_t>> ids_;
  RowPlacement placement_{true};
};

TEST_F(Placing, StartsTheReadsOfAllCachesBeforeItWaitsForOne) {
  calls_.may_finish.open();
  place({1, 2}, {3});
  placement_.await();
  EXPECT_THAT(calls_.list, ElementsAre("start a", "start b", "finish a", "finish b"));
}

TEST_F(Placing, StartsTheReadsOfBatchesThatWaitBeforeItFinishesOne) {
  place({1});
  calls_.reading.await();
  place({2}, {5});
  place({3}, {6});
  calls_.may_finish.open();
  for (int batch = 0; batch < 3; ++batch) step(false);
  EXPECT_THAT(calls_.list, ElementsAre("start a", "finish a", "start a", "start b", "start a",
                                       "start b", "finish a", "finish b", "finish a", "finish b"));
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
  try {
    placement_.settle();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the disk of a is gone");
  }
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
  EXPECT_EQ(counters.middle_reads, 0);
  EXPECT_EQ(counters.fetched_bytes, counters.reads * 16);
  EXPECT_EQ(counters.written_bytes, (1 + 3) * 16);
  EXPECT_GT(counters.fetch_seconds, 0);
  EXPECT_GT(counters.write_seconds, 0);
  EXPECT_GT(counters.exposed_seconds, 0);
}

TEST(CacheCountersOf, APeriodAreTheDifferencesOfEachCount) {
  const CacheCounters before{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const CacheCounters now{101, 202, 303, 404, 505, 606, 707, 808, 909, 1010, 1111};
  const CacheCounters d = now - before;
  EXPECT_EQ((std::vector{d.accesses, d.rows, d.misses, d.middle_reads, d.reads, d.fetched_bytes,
                         d.written_bytes}),
            (std::vector<int64_t>{100, 200, 300, 400, 500, 600, 700}));
  EXPECT_EQ((std::vector{d.place_seconds, d.fetch_seconds, d.write_seconds, d.exposed_seconds}),
            (std::vector<double>{800, 900, 1000, 1100}));
}

TEST_F(Placing, WithoutLookaheadABatchWaitsForTheReleaseOfTheOneBefore) {
  calls_.may_finish.open();
  RowPlacement one(false);
  std::vector<int64_t> first{1}, second{2};
  TableConfig table;
  table.name = "table";
  table.rows = kRows;
  table.dim = 4;
  const RowShape shape(table, {}, 1, {0, kRows}, {0, 4});
  one.add(std::make_unique<RowCache>(
              tools_, nullptr, std::vector<RowShape>{shape}, kSlots, make_clock(),
              [](const SlotRecords& layout) { return make_memory_records(kRows, layout.bytes()); }),
          [](int64_t slots) { return FastNeed{slots}; });
  one.await_placed(one.place({{0, first.data(), 1, false}}, {}));
  const int64_t batch = one.place({{0, second.data(), 1, false}}, {});
  // Nothing is under way that could place it.
  one.settle();
  EXPECT_FALSE(one.placed(batch));
  EXPECT_EQ(second[0], 2);
  one.await();
  one.release(true);
  one.await_placed(batch);
  EXPECT_TRUE(one.placed(batch));
  EXPECT_EQ(second[0], 1);  // the second slot
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

TEST_F(Placing, TellsTheFastMemoryThatABatchNeeds) {
  calls_.may_finish.open();
  const int64_t batch = place({1, 2, 3, 4, 5, 5}, {1});
  EXPECT_EQ(placement_.fast_needed(batch).bytes, 5);
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
TEST_F(Placing, AtMostSeventeenWritesWaitForTheStore) {
  calls_.may_finish.open();
  calls_.may_write.close();
  std::atomic<int> steps = 0;
  std::thread stepper([&] {
    for (int64_t batch = 0; batch < 30; ++batch) {
      const int64_t row = batch % 6 * 3;
      place({row, row + 1, row + 2});
      step(true);
      ++steps;
    }
  });
  const auto sleep = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  for (int i = 0; i < 500 && steps < 18; ++i) sleep();
  sleep();
  EXPECT_EQ(steps, 18) << "the first one writes nothing";
  calls_.may_write.open();
  stepper.join();
  placement_.settle();
  EXPECT_EQ(calls_.rows_written, 29 * 3);
}

// Neither the time in which the batch waits for slots, nor that of an earlier one, is work.
TEST_F(Placing, CountsTheTimesOfWorkAndOfWaiting) {
  using Clock = std::chrono::steady_clock;
  const auto wait = std::chrono::milliseconds(30);
  const auto seconds = [](auto time) { return std::chrono::duration<double>(time).count(); };
  calls_.may_finish.open();
  place({0, 1});
  CacheCounters before = placement_.counters();
  EXPECT_GT(before.place_seconds, 0);
  std::vector<int64_t> full{2, 3, 4};
  const auto begin = Clock::now();
  const int64_t batch = placement_.place({{0, full.data(), 3, false}});
  placement_.settle();
  ASSERT_FALSE(placement_.placed(batch));
  std::this_thread::sleep_for(wait);
  step(false);
  placement_.await_placed(batch);
  CacheCounters after = placement_.counters();
  EXPECT_LE(after.place_seconds - before.place_seconds, seconds(Clock::now() - begin - wait));
  EXPECT_GT(after.place_seconds, before.place_seconds);
  step(false);

  before = placement_.counters();
  place({2, 3, 4});
  after = placement_.counters();
  EXPECT_GT(after.place_seconds, before.place_seconds);
  EXPECT_GT(after.exposed_seconds, before.exposed_seconds) << "until it was placed";
  before = after;
  placement_.await();
  EXPECT_GT(placement_.counters().exposed_seconds, before.exposed_seconds) << "for its rows";
}

TEST_F(Placing, EndsEveryReadIfOneFails) {
  calls_.fails = true;
  calls_.may_finish.open();
  try {
    place({1}, {2});
    placement_.await();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the disk of a is gone");
  }
  EXPECT_THAT(calls_.list, ElementsAre("start a", "start b", "finish a", "end a", "end b"));
  // Nobody waits for batches that come later.
  EXPECT_THROW(place({3}, {4}), Error);
  EXPECT_THROW(placement_.settle(), Error);
}

}  // namespace
}  // namespace dlrm::testing
