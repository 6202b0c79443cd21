#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "dlrm/core/view.h"

#include "embedding/records/zeroed_array.h"
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
  int64_t slot_of(int64_t row) const { return int64_t{rows_[row].slot_after} - 1; }
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
  int64_t rows_in_batch() const { return batches_.back().rows; }
  /// From now on slots_in_batch() may be called.
  void list_slots() { lists_slots_ = true; }
  /// The slots of the current batch's rows.
  const std::vector<int32_t>& slots_in_batch() const { return batches_.back().slots; }
  /// True if the current batch uses the row.
  bool is_in_batch(int64_t row) const { return rows_[row].batch == number_of(current()); }
  /// Ends the oldest batch. If `updated`, its rows are dirty. A row that no step has changed may
  /// count as dirty too, if batches that change rows and others that do not take turns.
  void release(bool updated);
  /// Gives a row that has no slot an empty one, for no batch. -1 if it would take another row's.
  int64_t fill(int64_t row);
  /// The slot's row differs from the slower tier's.
  void mark_dirty(int64_t slot) { rows_[row_of_[static_cast<size_t>(slot)]].dirty = true; }
  /// From now on the rows with rows[row] stay in the slots that they take. Such a row leaves only
  /// if batches in flight use the slots of all others. It is then like any other row. No batch may
  /// be in flight.
  void keep(std::vector<bool> rows);
  /// Empties all slots. No batch may be in flight.
  void clear();

 private:
  /// A batch in flight.
  struct InFlight {
    int64_t oldest = 0;          ///< in flight when this one began
    int64_t rows = 0;            ///< whose last batch is this one
    int64_t kept = 0;            ///< of these
    std::vector<int32_t> slots;  ///< of its rows, if they are to be listed
  };

  int64_t current() const { return first_ + std::ssize(batches_) - 1; }
  /// A batch as RowState has it. Rows whose last batch has ended long ago have 0.
  uint32_t number_of(int64_t batch) const { return static_cast<uint32_t>(batch - base_); }
  /// Numbers the batches in flight from 1.
  void renumber();
  /// True if the slot of a row whose last batch has ended differs from the slower tier's record.
  bool is_dirty(const RowState& row) const;
  /// Gives `row` a free slot. -1 if there is none.
  int64_t take_slot(int64_t row, std::vector<SlotChange>& changes);
  /// A slot without a pinned row. There is one.
  int64_t choose(int64_t row);
  /// Puts the row in a slot whose row has left.
  void put(int64_t row, int64_t slot);
  /// The current batch uses the row, which it did not do before. The use for which it was fetched
  /// does not count, so that rows that are used once leave early.
  void use(RowState& row, bool fetched);

  ZeroedArray<RowState> rows_;
  std::vector<int64_t> row_of_;
  bool lists_slots_ = false;
  std::deque<InFlight> batches_;  ///< the oldest first
  int64_t first_ = 1;             ///< the oldest of them; the next one if there is none
  int64_t base_ = 0;              ///< the batch before the first that RowState can tell apart
  int64_t last_update_ = 0;       ///< the last batch that ended with its rows changed
  int64_t clean_begin_ = 0, clean_end_ = 0;  ///< the last batches in a row that ended without that
  int64_t pinned_ = 0;                       ///< rows of batches in flight
  int64_t kept_unpinned_ = 0;                ///< slots of kept rows that are not pinned
  std::unique_ptr<SlotChoice> choice_;
};

}  // namespace dlrm
