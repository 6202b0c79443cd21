#include "tiers/slot_map.h"

#include <algorithm>
#include <limits>

#include "dlrm/core/error.h"

namespace dlrm {

SlotMap::SlotMap(int64_t rows, int64_t slots)
    : slot_of_(static_cast<size_t>(rows), -1),
      row_of_(static_cast<size_t>(slots), -1),
      states_(static_cast<size_t>(slots)) {
  DLRM_CHECK(slots > 0 && slots <= rows && rows < std::numeric_limits<int32_t>::max(),
             "{} slots for {} rows", slots, rows);
}

void SlotMap::begin() {
  ++batch_;
  batches_.emplace_back();
}

int64_t SlotMap::place(View<int64_t> ids, std::vector<SlotChange>& changes) {
  std::vector<int32_t>& mine = batches_.back();
  for (size_t i = 0; i < ids.size(); ++i) {
    int32_t& slot = slot_of_[static_cast<size_t>(ids[i])];
    if (slot < 0) {
      const int64_t taken = free_slot();
      if (taken < 0) return static_cast<int64_t>(i);
      SlotChange change{taken, ids[i], row_of_[static_cast<size_t>(taken)]};
      SlotState& state = states_[static_cast<size_t>(taken)];
      if (change.evicted >= 0) {
        change.dirty = state.dirty;
        slot_of_[static_cast<size_t>(change.evicted)] = -1;
      }
      state = {};
      row_of_[static_cast<size_t>(taken)] = ids[i];
      slot = static_cast<int32_t>(taken);
      changes.push_back(change);
    }
    SlotState& state = states_[static_cast<size_t>(slot)];
    if (state.batch != batch_) {
      state.batch = batch_;
      pinned_ += state.pins == 0;
      ++state.pins;
      state.uses = static_cast<uint8_t>(std::min<int>(state.uses + 1, kMostUses));
      mine.push_back(slot);
    }
    ids[i] = slot;
  }
  return static_cast<int64_t>(ids.size());
}

void SlotMap::release(bool updated) {
  DLRM_CHECK(!batches_.empty(), "no batch is placed");
  for (const int32_t slot : batches_.front()) {
    SlotState& state = states_[static_cast<size_t>(slot)];
    state.dirty |= updated;
    --state.pins;
    pinned_ -= state.pins == 0;
  }
  batches_.erase(batches_.begin());
}

void SlotMap::clear() {
  DLRM_CHECK(batches_.empty(), "{} batches are in flight", batches_.size());
  std::fill(slot_of_.begin(), slot_of_.end(), -1);
  std::fill(row_of_.begin(), row_of_.end(), -1);
  std::fill(states_.begin(), states_.end(), SlotState());
  used_ = hand_ = 0;
}

int64_t SlotMap::free_slot() {
  if (used_ < slots()) return used_++;
  if (pinned_ == slots()) return -1;
  for (;; hand_ = (hand_ + 1) % slots()) {
    SlotState& state = states_[static_cast<size_t>(hand_)];
    if (state.pins > 0) continue;
    if (state.uses == 0) break;
    --state.uses;
  }
  const int64_t taken = hand_;
  hand_ = (hand_ + 1) % slots();
  return taken;
}

}  // namespace dlrm
