#include "embedding/tiers/slot_map.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "dlrm/core/error.h"

namespace dlrm::testing {
namespace {

/// What a SlotMap should know, in ordered maps. Each test plays the map's changes into it.
class PlainSlots {
 public:
  explicit PlainSlots(int64_t slots) : slots_(slots) {}

  void begin() { batches_.emplace_back(); }
  /// A row of the current batch that has no slot takes one.
  void change(const SlotChange& change) {
    ASSERT_TRUE(0 <= change.slot && change.slot < slots_) << change.slot;
    EXPECT_FALSE(has(change.row)) << "row " << change.row << " has a slot";
    const auto held = row_in_.find(change.slot);
    EXPECT_EQ(change.evicted, held == row_in_.end() ? -1 : held->second);
    // A map may call a row dirty that is not.
    EXPECT_TRUE(change.dirty || dirty_.count(change.slot) == 0);
    EXPECT_FALSE(in_use(change.evicted)) << "row " << change.evicted << " is in use";
    if (held != row_in_.end()) slot_of_.erase(held->second);
    dirty_.erase(change.slot);
    row_in_[change.slot] = change.row;
    slot_of_[change.row] = change.slot;
  }
  void use(int64_t row) { batches_.back().insert(row); }
  void release(bool updated) {
    for (const int64_t row : batches_.front()) {
      if (updated) dirty_.insert(slot_of_.at(row));
    }
    batches_.erase(batches_.begin());
  }

  bool has(int64_t row) const { return slot_of_.count(row) > 0; }
  bool in_use(int64_t row) const {
    return std::any_of(batches_.begin(), batches_.end(),
                       [&](const std::set<int64_t>& batch) { return batch.count(row) > 0; });
  }
  int64_t rows_in_use() const {
    std::set<int64_t> rows;
    for (const auto& batch : batches_) rows.insert(batch.begin(), batch.end());
    return static_cast<int64_t>(rows.size());
  }
  size_t in_flight() const { return batches_.size(); }
  const std::set<int64_t>& batch() const { return batches_.back(); }
  int64_t slot_of(int64_t row) const { return slot_of_.at(row); }

  void expect_alike(const SlotMap& map, int64_t rows) const {
    for (int64_t row = 0; row < rows; ++row) {
      ASSERT_EQ(map.slot_of(row), has(row) ? slot_of(row) : -1) << "row " << row;
      ASSERT_EQ(map.is_in_batch(row), batch().count(row) > 0) << "row " << row;
    }
    for (int64_t slot = 0; slot < slots_; ++slot) {
      const auto held = row_in_.find(slot);
      ASSERT_EQ(map.row_of()[static_cast<size_t>(slot)], held == row_in_.end() ? -1 : held->second);
    }
    ASSERT_EQ(map.rows_in_batch(), static_cast<int64_t>(batch().size()));
  }

 private:
  int64_t slots_;
  std::map<int64_t, int64_t> row_in_, slot_of_;
  std::set<int64_t> dirty_;  // slots
  std::vector<std::set<int64_t>> batches_;
};

constexpr int64_t kRows = 90, kMostIds = 24;

/// Ids of few rows often and of many rows rarely, of at most kMostIds rows.
template <class Id>
std::vector<Id> random_ids(std::mt19937& random) {
  std::vector<Id> ids(random() % (kMostIds + 1));
  for (Id& id : ids) {
    id =
        static_cast<Id>(random() % 2 == 0 ? random() % 8 : random() % static_cast<uint64_t>(kRows));
  }
  return ids;
}

/// Places a batch, and releases older ones if it finds no free slot.
template <class Id>
void place_like(SlotMap& map, PlainSlots& plain, const std::vector<Id>& rows,
                std::mt19937& random) {
  map.begin();
  plain.begin();
  std::vector<Id> ids = rows;
  for (size_t next = 0; true;) {
    std::vector<SlotChange> changes;
    const auto placed = static_cast<size_t>(map.place(View<Id>(ids).subspan(next), changes));
    size_t change = 0;
    for (const size_t end = next + placed; next < end; ++next) {
      if (!plain.has(rows[next])) {
        ASSERT_LT(change, changes.size()) << "row " << rows[next] << " is not fetched";
        ASSERT_EQ(changes[change].row, rows[next]);
        plain.change(changes[change++]);
      }
      plain.use(rows[next]);
      ASSERT_EQ(ids[next], plain.slot_of(rows[next])) << "row " << rows[next];
    }
    EXPECT_EQ(change, changes.size());
    plain.expect_alike(map, kRows);
    if (next == rows.size()) return;
    EXPECT_EQ(plain.rows_in_use(), map.slots()) << "a slot was free";
    EXPECT_FALSE(plain.in_use(rows[next]));
    EXPECT_TRUE(std::equal(ids.begin() + static_cast<ptrdiff_t>(next), ids.end(),
                           rows.begin() + static_cast<ptrdiff_t>(next)));
    ASSERT_GT(plain.in_flight(), 1U);
    const bool updated = random() % 2 == 0;
    map.release(updated);
    plain.release(updated);
  }
}

std::vector<bool> rows_below(int64_t end, int64_t rows) {
  std::vector<bool> below(static_cast<size_t>(rows));
  std::fill_n(below.begin(), end, true);
  return below;
}

template <class Id>
class SlotMaps : public ::testing::Test {};
using IdTypes = ::testing::Types<int32_t, int64_t>;
TYPED_TEST_SUITE(SlotMaps, IdTypes);

constexpr std::unique_ptr<SlotChoice> (*kChoices[])() = {make_clock, make_lru16};

TYPED_TEST(SlotMaps, PlaceRandomBatchesLikeAPlainModel) {
  for (const int64_t slots : {kMostIds, kMostIds + 1, int64_t{40}, kRows - 1, kRows}) {
    for (const auto make_choice : kChoices) {
      std::mt19937 random(static_cast<unsigned>(slots));
      SlotMap map(kRows, slots, make_choice());
      // One map's batches get new numbers in the middle of the test.
      for (int64_t batch = 100; slots == 40 && batch < kBatchNumbers; ++batch) {
        map.begin();
        map.release(false);
      }
      if (make_choice == make_clock) map.keep(rows_below(random() % 2 * 30, kRows));
      PlainSlots plain(slots);
      for (int batch = 0; batch < 200 && !this->HasFailure(); ++batch) {
        SCOPED_TRACE("batch " + std::to_string(batch) + ", " + std::to_string(slots) + " slots");
        place_like(map, plain, random_ids<TypeParam>(random), random);
        while (plain.in_flight() > random() % 5) {
          const bool updated = random() % 2 == 0;
          map.release(updated);
          plain.release(updated);
        }
      }
    }
  }
}

/// Places and releases a batch. Returns its changes.
std::vector<SlotChange> changes_of(SlotMap& map, std::vector<int64_t> ids, bool updated = false) {
  std::vector<SlotChange> changes;
  map.begin();
  EXPECT_EQ(map.place(View<int64_t>(ids), changes), static_cast<int64_t>(ids.size()));
  map.release(updated);
  return changes;
}

TEST(SlotMap, RowsOfEveryBatchStayWhileRowsOfOneBatchPass) {
  SlotMap map(1000, 8, make_clock());
  changes_of(map, {0, 1, 2, 3});
  for (int64_t row = 4; row < 1000; row += 2) {
    // The passing rows take slots while no batch uses the others.
    EXPECT_EQ(changes_of(map, {row, row + 1, 0, 1, 2, 3}).size(), 2U) << "row " << row;
  }
}

TEST(SlotMap, RowsThatAreNoLongerUsedLeave) {
  SlotMap map(1000, 8, make_clock());
  for (int i = 0; i < 100; ++i) changes_of(map, {0, 1, 2, 3});
  for (int64_t row = 4; row < 100; ++row) changes_of(map, {row});
  for (int64_t row = 0; row < 4; ++row) EXPECT_EQ(map.slot_of(row), -1) << "row " << row;
}

TEST(SlotMap, RowsThatOnlyEvaluationUsesLeaveClean) {
  SlotMap map(100, 5, make_clock());
  changes_of(map, {0, 1}, true);
  for (int64_t round = 0; round < 3; ++round) {  // evaluation after training
    changes_of(map, {0, 10 + round});
    changes_of(map, {0, 10 + round});
  }
  std::map<int64_t, bool> dirty;
  for (int64_t row = 50; row < 100; ++row) {
    for (const SlotChange& change : changes_of(map, {row})) dirty[change.evicted] = change.dirty;
  }
  for (const auto& [row, is_dirty] : dirty) EXPECT_EQ(is_dirty, row == 0 || row == 1) << row;
  for (const int64_t row : {0, 1, 12, 50}) EXPECT_EQ(dirty.count(row), 1U) << row;
}

TEST(SlotMap, KeptRowsStayWhileOthersPass) {
  SlotMap map(1000, 6, make_clock());
  changes_of(map, {0, 500});
  map.keep(rows_below(4, 1000));
  changes_of(map, {1, 2});  // row 0 had its slot before
  for (int64_t row = 4; row < 500; row += 2) changes_of(map, {row, row + 1}, true);
  for (int64_t row = 0; row < 3; ++row) EXPECT_GE(map.slot_of(row), 0) << "row " << row;
}

TEST(SlotMap, KeptRowsLeaveIfABatchNeedsTheirSlotsAndAreThenLikeOthers) {
  SlotMap map(1000, 6, make_clock());
  map.keep(rows_below(5, 1000));
  changes_of(map, {0, 1, 2, 3, 4}, true);
  EXPECT_EQ(changes_of(map, {5, 6, 7}).size(), 3U);  // two of the kept rows leave
  std::vector<int64_t> kept;
  for (int64_t row = 0; row < 5; ++row) {
    if (map.slot_of(row) >= 0) kept.push_back(row);
  }
  EXPECT_EQ(kept.size(), 3U);
  changes_of(map, {0, 1, 2, 3, 4});
  for (int64_t row = 100; row < 200; ++row) changes_of(map, {row});
  for (int64_t row = 0; row < 5; ++row) {
    const bool stayed = std::count(kept.begin(), kept.end(), row) > 0;
    EXPECT_EQ(map.slot_of(row) >= 0, stayed) << "row " << row;
  }
}

}  // namespace
}  // namespace dlrm::testing
