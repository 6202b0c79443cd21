#include "embedding/tiers/row_cache.h"

#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>

#include "dlrm/comm/communicator.h"
#include "dlrm/plan/cache_size.h"

#include "embedding/training.h"

namespace dlrm::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

/// A cache of one shard over records in memory. Nothing moves unless a test moves it.
class OneCache : public ::testing::Test {
 protected:
  static constexpr int64_t kWidth = 4;

  std::unique_ptr<RowCache> make(int64_t rows, int64_t slots, int64_t width = kWidth) {
    return make(rows, slots, {{0, width}}, {});
  }
  /// A cache of several column shards.
  std::unique_ptr<RowCache> make(int64_t rows, int64_t slots, const std::vector<Range>& columns,
                                 const OptimizerConfig& optimizer) {
    TableConfig table;
    table.name = "table";
    table.rows = rows;
    table.dim = columns.back().end;
    std::vector<RowShape> shapes;
    for (const Range& range : columns) {
      shapes.emplace_back(table, optimizer, 1, Range{0, rows}, range);
    }
    return std::make_unique<RowCache>(
        tools_, nullptr, std::move(shapes), slots, make_clock(),
        [rows](const SlotRecords& layout) { return make_memory_records(rows, layout.bytes()); });
  }
  /// A batch of one row, which is fetched and filled with `value`. Returns what left its slot.
  std::shared_ptr<WriteBack> set(RowCache& cache, int64_t row, float value) {
    std::vector<SlotChange> changes;
    const int64_t slot = place(cache, row, changes);
    const auto evicted = cache.evict(changes);
    cache.finish_fetch(cache.start_fetch(changes));
    const RowTable table = cache.rows_of(0, [] {})->table();
    std::fill_n(static_cast<float*>(table.weights) + slot * table.stride, kWidth, value);
    cache.map().release(true);
    return evicted;
  }
  /// The values that a batch of one row finds in its slot.
  std::vector<float> fetched(RowCache& cache, int64_t row) {
    std::vector<SlotChange> changes;
    const int64_t slot = place(cache, row, changes);
    cache.evict(changes);
    cache.finish_fetch(cache.start_fetch(changes));
    cache.map().release(false);
    const RowTable table = cache.rows_of(0, [] {})->table();
    const float* from = static_cast<const float*>(table.weights) + slot * table.stride;
    return {from, from + kWidth};
  }

  std::unique_ptr<Communicator> comm_ = make_self_comm();
  Rank rank_{*comm_};
  RowTools tools_{rank_.context, *rank_.ops};

 private:
  static int64_t place(RowCache& cache, int64_t row, std::vector<SlotChange>& changes) {
    std::vector<int64_t> ids{row};
    cache.map().begin();
    EXPECT_EQ(cache.map().place(View<int64_t>(ids), changes), 1);
    return ids[0];
  }
};

// A row leaves twice before its first record is written.
TEST_F(OneCache, TheLatestRecordIsFetchedWhileAnOlderOneIsWritten) {
  const auto cache = make(20, 1);
  set(*cache, 0, 1);
  const auto first = set(*cache, 5, 2);  // row 0 leaves with 1
  ASSERT_THAT(first->rows, ElementsAre(0));
  set(*cache, 0, 3);
  const auto second = set(*cache, 6, 4);  // row 0 leaves with 3
  ASSERT_THAT(second->rows, ElementsAre(0));
  cache->write(*first);
  EXPECT_THAT(fetched(*cache, 0), Each(3));
  cache->write(*second);
  set(*cache, 7, 5);
  EXPECT_THAT(fetched(*cache, 0), Each(3));
}

TEST_F(OneCache, RowsThatWereNotUpdatedAreNotWritten) {
  const auto cache = make(20, 1);
  const std::vector<float> initial = fetched(*cache, 3);
  const auto evicted = set(*cache, 4, 1);
  EXPECT_EQ(evicted, nullptr);
  EXPECT_EQ(cache->store().traffic().written.rows, 0);
  EXPECT_EQ(fetched(*cache, 3), initial);
}

TEST_F(OneCache, RowsThatWereLoadedIntoSlotsAreWrittenWhenTheyLeave) {
  const auto cache = make(20, 3);
  set(*cache, 4, 1);  // has a slot when the others are loaded
  std::vector<float> values(20 * kWidth);
  std::iota(values.begin(), values.end(), 100.0f);
  cache->rows_of(0, [] {})->write(RowArray::kWeights, 0, 20, values.data());
  std::vector<int64_t> left;
  for (int64_t row = 10; row < 13; ++row) {
    const auto evicted = set(*cache, row, 1);
    ASSERT_NE(evicted, nullptr) << row;
    left.insert(left.end(), evicted->rows.begin(), evicted->rows.end());
    cache->write(*evicted);
  }
  EXPECT_THAT(left, ::testing::UnorderedElementsAre(0, 1, 4));
  for (const int64_t row : left) {
    std::vector<float> read(kWidth);
    cache->rows_of(0, [] {})->read(RowArray::kWeights, row, 1, read.data());
    EXPECT_TRUE(std::equal(read.begin(), read.end(), values.begin() + row * kWidth)) << row;
  }
}

// Whatever a record has, one that was written is no longer taken from where it waited.
TEST_F(OneCache, RecordsThatWereWrittenAreReadFromTheStore) {
  const auto cache = make(20, 4);
  std::vector<float> values(20 * kWidth);
  std::iota(values.begin(), values.end(), 100.0f);
  const auto fetch = [&](std::vector<int64_t> rows) {
    std::vector<SlotChange> changes;
    cache->map().begin();
    EXPECT_EQ(cache->map().place(View<int64_t>(rows), changes), std::ssize(rows));
    const auto evicted = cache->evict(changes);
    cache->finish_fetch(cache->start_fetch(changes));
    cache->map().release(true);
    return evicted;
  };
  fetch({0, 1, 2, 3});
  const auto rows = cache->rows_of(0, [] {});
  rows->write(RowArray::kWeights, 0, 4, values.data());
  const auto first = fetch({4, 5, 6, 7});
  ASSERT_THAT(first->rows, ElementsAre(0, 1, 2, 3));
  const auto second = fetch({1, 2});  // before they are written
  EXPECT_EQ(cache->store().traffic().read.rows, 0);
  cache->write(*first);
  cache->write(*second);
  const auto third = fetch({8, 9, 0, 3});
  EXPECT_EQ(cache->store().traffic().read.rows, 2) << "rows 0 and 3";
  cache->write(*third);
  cache->write(*fetch({4, 5, 6, 7}));
  EXPECT_EQ(cache->store().traffic().read.rows, 2 + 4);
  std::vector<float> read(4 * kWidth);
  rows->read(RowArray::kWeights, 0, 4, read.data());
  EXPECT_TRUE(std::equal(read.begin(), read.end(), values.begin()));
}

TEST_F(OneCache, MoreRowsThanABufferHoldsAreWrittenAndRead) {
  constexpr int64_t kRows = 140'000, kColumns = 32, kSome = 100;
  const auto cache = make(kRows, 50, kColumns);
  const auto rows = cache->rows_of(0, [] {});
  std::vector<float> values(kRows * kColumns);
  std::iota(values.begin(), values.end(), 0.0f);
  rows->write(RowArray::kWeights, 0, kRows, values.data());
  std::vector<float> read(values.size());
  rows->read(RowArray::kWeights, 0, kRows, read.data());
  EXPECT_TRUE(read == values);
  // Both halves of a chunk's border, written again at another place.
  const int64_t border = 15 * records_at_a_time(kRows, kColumns * 4) - kSome / 2;
  rows->write(RowArray::kWeights, border, kSome, values.data());
  rows->read(RowArray::kWeights, border - 1, kSome + 2, read.data());
  EXPECT_TRUE(
      std::equal(values.begin(), values.begin() + kSome * kColumns, read.begin() + kColumns));
  EXPECT_EQ(read[0], values[static_cast<size_t>((border - 1) * kColumns)]);
  const auto after = static_cast<size_t>((kSome + 1) * kColumns);
  EXPECT_EQ(read[after], values[static_cast<size_t>((border + kSome) * kColumns)]);
}

/// A cache of two shards with two states each, and all arrays of both as shared parts.
class SharedParts : public OneCache {
 protected:
  static constexpr int64_t kRows = 400'000, kSlots = 1000;  // records of 19.2 MB

  SharedParts() {
    OptimizerConfig adam;
    adam.type = OptimizerRule::kAdam;
    cache_ = make(kRows, kSlots, {{0, 3}, {3, 4}}, adam);
    for (size_t s = 0; s < 2; ++s) shards_.push_back(cache_->rows_of(s, [] {}));
  }
  /// Calls work(array, columns, rows, part) for all rows and arrays.
  template <class Work>
  void pass(const Work& work) {
    SharedRows* const all = shards_[0]->shared(RowArray::kWeights).rows;
    all->begin();
    for (Range rows = all->next(); rows.size() > 0; rows = all->next()) {
      int64_t number = 0;
      for (const int64_t columns : {3, 1}) {
        for (int a = 0; a < 3; ++a, ++number) {
          const auto part =
              shards_[static_cast<size_t>(number / 3)]->shared(static_cast<RowArray>(a));
          ASSERT_EQ(part.rows, all);
          work(number, columns, rows, part.part);
        }
      }
    }
  }
  static float value_of(int64_t number, int64_t i) {
    return static_cast<float>(number * 1000 + i % 997);
  }
  void write_all() {
    SharedRows* const all = shards_[0]->shared(RowArray::kWeights).rows;
    pass([&](int64_t number, int64_t columns, Range rows, size_t part) {
      std::vector<float> values(static_cast<size_t>(rows.size() * columns));
      for (int64_t i = 0; i < std::ssize(values); ++i) {
        values[static_cast<size_t>(i)] = value_of(number, rows.begin * columns + i);
      }
      all->write(part, values.data());
    });
  }
  int64_t wrong_values(const std::vector<float>& values, int64_t number, int64_t first) {
    int64_t wrong = 0;
    for (int64_t i = 0; i < std::ssize(values); ++i) {
      wrong += values[static_cast<size_t>(i)] != value_of(number, first + i);
    }
    return wrong;
  }

  std::unique_ptr<RowCache> cache_;
  std::vector<std::unique_ptr<RowStore>> shards_;
};

TEST_F(SharedParts, AreWrittenTogether) {
  write_all();
  EXPECT_EQ(cache_->store().traffic().written.rows, kRows - kSlots) << "the rest is in slots";
  EXPECT_EQ(cache_->store().traffic().read.rows, 0);
  for (int64_t number = 0; number < 6; ++number) {
    std::vector<float> values(static_cast<size_t>(kRows * (number < 3 ? 3 : 1)));
    shards_[static_cast<size_t>(number / 3)]->read(static_cast<RowArray>(number % 3), 0, kRows,
                                                   values.data());
    EXPECT_EQ(wrong_values(values, number, 0), 0) << number;
  }
}

TEST_F(SharedParts, AreReadTogetherAndEachRecordOnce) {
  write_all();
  int64_t rows_read = 0;
  const int64_t before = cache_->store().traffic().written.rows;
  SharedRows* const all = shards_[0]->shared(RowArray::kWeights).rows;
  pass([&](int64_t number, int64_t columns, Range rows, size_t part) {
    std::vector<float> values(static_cast<size_t>(rows.size() * columns));
    all->read(part, values.data());
    EXPECT_EQ(wrong_values(values, number, rows.begin * columns), 0) << number;
    rows_read += rows.size();
  });
  EXPECT_EQ(rows_read, 6 * kRows);
  EXPECT_EQ(cache_->store().traffic().read.rows, kRows - kSlots);
  EXPECT_EQ(cache_->store().traffic().written.rows, before) << "nothing changed";
}

TEST_F(SharedParts, OfAPassThatWasGivenUpAreNotChanged) {
  write_all();
  const int64_t before = cache_->store().traffic().written.rows;
  SharedRows* const all = shards_[0]->shared(RowArray::kWeights).rows;
  all->begin();
  const std::vector<float> zeros(static_cast<size_t>(all->next().size()) * 3);
  all->write(shards_[0]->shared(RowArray::kWeights).part, zeros.data());
  pass([&](int64_t number, int64_t columns, Range rows, size_t part) {
    std::vector<float> values(static_cast<size_t>(rows.size() * columns));
    all->read(part, values.data());
    EXPECT_EQ(wrong_values(values, number, rows.begin * columns), 0) << number;
  });
  EXPECT_EQ(cache_->store().traffic().written.rows, before);
}

TEST_F(SharedParts, MayBeWrittenWithoutTheOthers) {
  write_all();
  SharedRows* const all = shards_[0]->shared(RowArray::kWeights).rows;
  pass([&](int64_t number, int64_t, Range rows, size_t part) {
    const std::vector<float> zeros(static_cast<size_t>(rows.size()));
    if (number == 4) all->write(part, zeros.data());
  });
  std::vector<float> values(kRows);
  shards_[1]->read(RowArray::kState1, 0, kRows, values.data());
  EXPECT_THAT(values, Each(0));
  shards_[1]->read(RowArray::kState2, 0, kRows, values.data());
  EXPECT_EQ(wrong_values(values, 5, 0), 0);
}

TEST_F(OneCache, InitialRowsForgetWhatWasWritten) {
  const auto cache = make(20, 3);
  const auto rows = cache->rows_of(0, [] {});
  std::vector<float> initial(20 * kWidth), read(20 * kWidth);
  rows->read(RowArray::kWeights, 0, 20, initial.data());
  const std::vector<float> written(20 * kWidth, 7);
  rows->write(RowArray::kWeights, 0, 20, written.data());
  rows->read(RowArray::kWeights, 0, 20, read.data());
  EXPECT_EQ(read, written);
  rows->initialise();
  rows->read(RowArray::kWeights, 0, 20, read.data());
  EXPECT_EQ(read, initial);
  EXPECT_EQ(fetched(*cache, 19), std::vector<float>(initial.end() - kWidth, initial.end()));
}

}  // namespace
}  // namespace dlrm::testing
