#include "embedding/tiers/row_cache.h"

#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>

#include "dlrm/comm/communicator.h"

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
    TableConfig table;
    table.name = "table";
    table.rows = rows;
    table.dim = width;
    const RowShape shape(table, {}, 1, {0, rows}, {0, width});
    return std::make_unique<RowCache>(
        tools_, nullptr, std::vector<RowShape>{shape}, slots, make_clock(),
        [rows](int64_t bytes) { return make_memory_records(rows, bytes); });
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

TEST_F(OneCache, MoreRowsThanABufferHoldsAreWrittenAndRead) {
  constexpr int64_t kRows = 140'000, kColumns = 32, kSome = 100;  // records of 17.9 MB
  const auto cache = make(kRows, 50, kColumns);
  const auto rows = cache->rows_of(0, [] {});
  std::vector<float> values(kRows * kColumns);
  std::iota(values.begin(), values.end(), 0.0f);
  rows->write(RowArray::kWeights, 0, kRows, values.data());
  std::vector<float> read(values.size());
  rows->read(RowArray::kWeights, 0, kRows, read.data());
  EXPECT_TRUE(read == values);
  // Both halves of a chunk's border, written again at another place.
  const int64_t border = (16 << 20) / (kColumns * 4) - kSome / 2;
  rows->write(RowArray::kWeights, border, kSome, values.data());
  rows->read(RowArray::kWeights, border - 1, kSome + 2, read.data());
  EXPECT_TRUE(
      std::equal(values.begin(), values.begin() + kSome * kColumns, read.begin() + kColumns));
  EXPECT_EQ(read[0], values[static_cast<size_t>((border - 1) * kColumns)]);
  const auto after = static_cast<size_t>((kSome + 1) * kColumns);
  EXPECT_EQ(read[after], values[static_cast<size_t>((border + kSome) * kColumns)]);
}

TEST_F(OneCache, TheTableOfAShardHasARowForEachSlot) {
  const auto cache = make(20, 3);
  const RowTable table = cache->rows_of(0, [] {})->table();
  EXPECT_EQ(table.rows, 3);
  EXPECT_EQ(table.width, kWidth);
  EXPECT_EQ(cache->rows(), 20);
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
