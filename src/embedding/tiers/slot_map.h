#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "dlrm/core/view.h"

#include "slot_choice.h"

namespace dlrm {

/// A row that takes a slot of the fast tier, and the row that leaves it.
struct SlotChange {
  int64_t slot = 0;
  int64_t row = 0;       ///< to fetch into the slot
  int64_t evicted = -1;  ///< the row that the slot held; -1: none
  bool dirty = false;    ///< the evicted row was updated since it was fetched
};

/// Which rows of a slice are in the slots of its fast tier. Batches are placed and released in the
/// same order. A row that a placed batch uses keeps its slot until that batch is released.
class SlotMap {
 public:
  /// `rows` < 2^31 - 1, 0 < `slots` <= `rows`.
  SlotMap(int64_t rows, int64_t slots, std::unique_ptr<SlotChoice> choice);

  int64_t slots() const { return static_cast<int64_t>(row_of_.size()); }
  /// The slot of a row, -1 if it has none.
  int64_t slot_of(int64_t row) const {
    if (whole_) return (bits_of(row).has_slot & bit(row)) != 0 ? row : -1;
    return slot_of_[static_cast<size_t>(row)];
  }
  /// [slots] the row in each slot, -1 if it is empty.
  const std::vector<int64_t>& row_of() const { return row_of_; }

  /// Begins a batch.
  void begin();
  /// Gives the rows `ids` slots, and replaces each id by its slot. Appends a change for each row
  /// that had none. Stops at the first id that finds no free slot and returns the number of ids
  /// replaced; the caller releases an older batch and continues with the rest.
  template <class Id>
  int64_t place(View<Id> ids, std::vector<SlotChange>& changes);
  /// Distinct rows that the current batch uses so far.
  int64_t rows_in_batch() const { return std::ssize(batches_.back()); }
  /// The slots of these rows.
  const std::vector<int32_t>& slots_in_batch() const { return batches_.back(); }
  /// True if the current batch uses the row.
  bool is_in_batch(int64_t row) const {
    if (whole_) return (bits_of(row).in_batch & bit(row)) != 0;
    const int64_t slot = slot_of(row);
    return slot >= 0 && states_[static_cast<size_t>(slot)].batch == batch_;
  }
  /// Ends the oldest batch. If `updated`, its rows are dirty.
  void release(bool updated);
  /// Gives a row that has no slot an empty one, for no batch. -1 if it would take another row's.
  int64_t fill(int64_t row);
  /// The slot's row differs from the slower tier's.
  void mark_dirty(int64_t slot) {
    if (!whole_) states_[static_cast<size_t>(slot)].dirty = true;
  }
  /// From now on the rows with rows[row] stay in the slots that they take. Such a row leaves only
  /// if batches in flight use the slots of all others. It is then like any other row. No batch may
  /// be in flight.
  void keep(std::vector<bool> rows);
  /// Empties all slots. No batch may be in flight.
  void clear();

 private:
  /// What a whole slice knows of 64 rows. Both words are in one line of a processor's caches.
  struct RowBits {
    uint64_t has_slot = 0, in_batch = 0;
  };
  RowBits& bits_of(int64_t row) { return bits_[static_cast<size_t>(row) / 64]; }
  const RowBits& bits_of(int64_t row) const { return bits_[static_cast<size_t>(row) / 64]; }
  static uint64_t bit(int64_t row) { return uint64_t{1} << (static_cast<uint64_t>(row) % 64); }

  // Of a whole slice.
  template <class Id>
  void place_whole(View<const Id> ids, std::vector<SlotChange>& changes);
  void put_whole(int64_t row);
  /// The rows of a batch are no longer those of the current one.
  void end_whole(View<const int32_t> rows) {
    for (const int32_t row : rows) bits_of(row).in_batch = 0;
  }

  /// Gives `row` a free slot. -1 if there is none.
  int64_t take_slot(int64_t row, std::vector<SlotChange>& changes);
  /// A slot without pins. There is one.
  int64_t choose(int64_t row);
  /// Puts the row in a slot whose row has left.
  void put(int64_t row, int64_t slot);
  /// The current batch uses the slot.
  void use(int64_t slot);

  /// Every row has a slot of its own, which is the row's number. No row leaves. The bits take the
  /// place of slot_of_ and states_, which are empty. They are small enough for processor caches.
  const bool whole_;
  const int64_t rows_;
  std::vector<RowBits> bits_;
  std::vector<int32_t> slot_of_;
  std::vector<int64_t> row_of_;
  std::vector<SlotState> states_;
  std::deque<std::vector<int32_t>> batches_;  ///< slots of each batch in flight, the oldest first
  std::vector<int32_t> spare_;                ///< memory for the next of them
  int32_t batch_ = -1;                        ///< number of the current batch
  int64_t pinned_ = 0;                        ///< slots with pins
  std::vector<bool> kept_;                    ///< by row; empty if none is kept
  int64_t kept_unpinned_ = 0;                 ///< slots of kept rows without pins
  std::unique_ptr<SlotChoice> choice_;
};

}  // namespace dlrm
