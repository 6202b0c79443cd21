#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "dlrm/core/view.h"

namespace dlrm {

/// What a SlotMap knows of a row. Rows of a batch are far apart in memory, so all of it is in one
/// word. All zero: a row without a slot.
struct RowState {
  int32_t slot_after = 0;   ///< its slot + 1; 0: none
  uint32_t batch : 20 = 0;  ///< the last batch that uses it, see SlotMap; 0: none
  uint32_t uses : 6 = 0;    ///< recent ones, at most kMostSlotUses
  uint32_t dirty : 1 = 0;   ///< a batch before that one changed it
  uint32_t kept : 1 = 0;    ///< it leaves only if every other row is pinned or kept
};
static_assert(sizeof(RowState) == 8);
constexpr uint32_t kMostSlotUses = 7;
constexpr int64_t kBatchNumbers = int64_t{1} << 20;

/// The slots that a row may take.
struct SlotTable {
  RowState* rows = nullptr;    ///< by row
  View<const int64_t> row_of;  ///< by slot; -1: it is empty
  uint32_t oldest_batch = 1;   ///< in flight. Rows of this and later batches are pinned.
  bool all_kept = false;       ///< all slots without a pin are kept

  /// The row in a slot. Null if it is empty.
  RowState* at(size_t slot) const { return row_of[slot] < 0 ? nullptr : rows + row_of[slot]; }
  bool is_pinned(const RowState& row) const { return row.batch >= oldest_batch; }
};

/// Chooses the slots that rows take. The rows that held them leave.
class SlotChoice {
 public:
  virtual ~SlotChoice() = default;
  /// A slot that is empty or has no pinned row, for `row`. There is at least one.
  virtual int64_t choose(int64_t row, const SlotTable& slots) = 0;
};

/// The clock algorithm. A hand passes over the slots and lowers their uses. It takes the first that
/// has none left.
std::unique_ptr<SlotChoice> make_clock();

/// 16-way sets. The slots of set s begin at 16·s. The last set also has the slots that are no whole
/// set. A row takes the slot of its set that was unused for the most batches. If batches in flight
/// use the whole set, it takes any other slot. No slot is kept.
std::unique_ptr<SlotChoice> make_lru16();

}  // namespace dlrm
