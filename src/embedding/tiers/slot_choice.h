#pragma once
#include <cstdint>
#include <memory>

#include "dlrm/core/view.h"

namespace dlrm {

constexpr int32_t kEmptySlot = -2, kNoBatch = -1;

/// What a SlotMap knows of a slot. Small, since the states of a batch's rows are far apart in
/// memory.
struct SlotState {
  int32_t batch = kEmptySlot;  ///< the last batch that uses its row, or kNoBatch
  uint16_t pins = 0;           ///< batches in flight that use it
  uint8_t uses : 6 = 0;        ///< recent ones, at most kMostSlotUses
  bool dirty : 1 = false;
  bool kept : 1 = false;  ///< its row leaves only if every slot without pins is kept
};
static_assert(sizeof(SlotState) == 8);
constexpr int kMostSlotUses = 3;

/// Chooses the slots that rows take. The rows that held them leave.
class SlotChoice {
 public:
  virtual ~SlotChoice() = default;
  /// True if no row leaves while a slot is empty.
  virtual bool fills_empty_slots() const = 0;
  /// A slot without pins for `row`. There is at least one. If `all_kept`, all of them are kept.
  virtual int64_t choose(int64_t row, View<SlotState> slots, bool all_kept) = 0;
};

/// The clock algorithm. A hand passes over the slots and lowers their uses. It takes the first that
/// has none left.
std::unique_ptr<SlotChoice> make_clock();

/// 16-way sets. The slots of set s begin at 16·s. The last set also has the slots that are no whole
/// set. A row takes the slot of its set that was unused for the most batches. If batches in flight
/// use the whole set, it takes any other slot. No slot is kept.
std::unique_ptr<SlotChoice> make_lru16();

}  // namespace dlrm
