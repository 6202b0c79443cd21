#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/core/view.h"

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
  SlotMap(int64_t rows, int64_t slots);

  int64_t slots() const { return static_cast<int64_t>(row_of_.size()); }
  /// The slot of a row, -1 if it has none.
  int64_t slot_of(int64_t row) const { return slot_of_[static_cast<size_t>(row)]; }
  /// [slots] the row in each slot, -1 if it is empty.
  const std::vector<int64_t>& row_of() const { return row_of_; }

  /// Begins a batch.
  void begin();
  /// Gives the rows `ids` slots, and replaces each id by its slot. Appends a change for each row
  /// that had none. Stops at the first id that finds no free slot and returns the number of ids
  /// replaced; the caller releases an older batch and continues with the rest.
  int64_t place(View<int64_t> ids, std::vector<SlotChange>& changes);
  /// Rows of the current batch so far.
  int64_t unique_rows() const { return static_cast<int64_t>(batches_.back().size()); }
  /// Ends the oldest batch. If `updated`, its rows are dirty.
  void release(bool updated);
  /// The row in the slot is the same as in the slower tier.
  void mark_clean(int64_t slot) { states_[static_cast<size_t>(slot)].dirty = false; }
  /// Empties all slots. No batch may be in flight.
  void clear();

 private:
  struct SlotState {
    int64_t batch = -1;  ///< the last batch that uses it
    int32_t pins = 0;    ///< batches in flight that use it
    uint8_t uses = 0;    ///< recent ones, at most kMostUses
    bool dirty = false;
  };
  static constexpr uint8_t kMostUses = 3;

  /// A slot without a batch, by the clock algorithm: the hand passes over slots and lowers their
  /// uses, and takes the first that has none left. -1 if every slot is in use.
  int64_t free_slot();

  std::vector<int32_t> slot_of_;
  std::vector<int64_t> row_of_;
  std::vector<SlotState> states_;
  std::vector<std::vector<int32_t>> batches_;  ///< slots of each batch in flight, the oldest first
  int64_t batch_ = -1;                         ///< number of the current batch
  int64_t pinned_ = 0;                         ///< slots with pins
  int64_t used_ = 0;                           ///< slots that were ever filled since clear()
  int64_t hand_ = 0;
};

}  // namespace dlrm
