#include "slot_map.h"

#include <algorithm>
#include <limits>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

/// Rows are far apart in memory. So many ids ahead, their entries are brought to the processor.
constexpr size_t kAhead = 16;
constexpr size_t kMostPins = std::numeric_limits<decltype(SlotState::pins)>::max();

}  // namespace

SlotMap::SlotMap(int64_t rows, int64_t slots, std::unique_ptr<SlotChoice> choice)
    : whole_(slots == rows && choice->fills_empty_slots()),
      rows_(rows),
      bits_(whole_ ? (static_cast<size_t>(rows) + 63) / 64 : 0),
      slot_of_(whole_ ? 0 : static_cast<size_t>(rows), -1),
      row_of_(static_cast<size_t>(slots), -1),
      states_(whole_ ? 0 : static_cast<size_t>(slots)),
      choice_(std::move(choice)) {
  DLRM_CHECK(slots > 0 && slots <= rows && rows < std::numeric_limits<int32_t>::max(),
             "{} slots for {} rows", slots, rows);
}

void SlotMap::begin() {
  DLRM_CHECK(batch_ < std::numeric_limits<int32_t>::max() && batches_.size() < kMostPins);
  ++batch_;
  if (whole_ && !batches_.empty()) end_whole(batches_.back());
  batches_.push_back(std::move(spare_));
  batches_.back().clear();
}

template <class Id>
int64_t SlotMap::place(View<Id> ids, std::vector<SlotChange>& changes) {
  if (whole_) {
    place_whole<Id>(ids, changes);
    return static_cast<int64_t>(ids.size());
  }
  // The map's entries, and then the slots' states, are fetched ahead.
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i + 2 * kAhead < ids.size()) {
      __builtin_prefetch(&slot_of_[static_cast<size_t>(ids[i + 2 * kAhead])], 1);
    }
    if (i + kAhead < ids.size()) {
      const int32_t later = slot_of_[static_cast<size_t>(ids[i + kAhead])];
      if (later >= 0) __builtin_prefetch(&states_[static_cast<size_t>(later)], 1);
    }
    int64_t slot = slot_of(ids[i]);
    if (slot < 0) slot = take_slot(ids[i], changes);
    if (slot < 0) return static_cast<int64_t>(i);
    use(slot);
    ids[i] = static_cast<Id>(slot);
  }
  return static_cast<int64_t>(ids.size());
}
template int64_t SlotMap::place(View<int32_t>, std::vector<SlotChange>&);
template int64_t SlotMap::place(View<int64_t>, std::vector<SlotChange>&);

template <class Id>
void SlotMap::place_whole(View<const Id> ids, std::vector<SlotChange>& changes) {
  std::vector<int32_t>& batch = batches_.back();
  size_t count = batch.size();
  batch.resize(count + ids.size());
  // Half of the ids are new to a batch, in no order. So the loop has no branch on that.
  for (const Id row : ids) {
    RowBits& bits = bits_of(row);
    if ((bits.has_slot & bit(row)) == 0) {
      put_whole(row);
      changes.push_back({row, row});
    }
    batch[count] = static_cast<int32_t>(row);
    count += (bits.in_batch & bit(row)) == 0;
    bits.in_batch |= bit(row);
  }
  batch.resize(count);
}

void SlotMap::put_whole(int64_t row) {
  bits_of(row).has_slot |= bit(row);
  row_of_[static_cast<size_t>(row)] = row;
}

int64_t SlotMap::take_slot(int64_t row, std::vector<SlotChange>& changes) {
  if (pinned_ == slots()) return -1;
  const int64_t slot = choose(row);
  const SlotState& state = states_[static_cast<size_t>(slot)];
  SlotChange change{slot, row, row_of_[static_cast<size_t>(slot)], state.dirty};
  if (change.evicted >= 0) slot_of_[static_cast<size_t>(change.evicted)] = -1;
  if (state.kept) {
    kept_[static_cast<size_t>(change.evicted)] = false;
    --kept_unpinned_;
  }
  put(row, slot);
  changes.push_back(change);
  return slot;
}

int64_t SlotMap::fill(int64_t row) {
  if (whole_) {
    put_whole(row);
    return row;
  }
  if (pinned_ == slots()) return -1;
  const int64_t slot = choose(row);
  if (row_of_[static_cast<size_t>(slot)] >= 0) return -1;
  put(row, slot);
  return slot;
}

int64_t SlotMap::choose(int64_t row) {
  return choice_->choose(row, states_, pinned_ + kept_unpinned_ == slots());
}

void SlotMap::put(int64_t row, int64_t slot) {
  SlotState& state = states_[static_cast<size_t>(slot)];
  state = {};
  state.batch = kNoBatch;
  state.kept = !kept_.empty() && kept_[static_cast<size_t>(row)];
  kept_unpinned_ += state.kept;
  row_of_[static_cast<size_t>(slot)] = row;
  slot_of_[static_cast<size_t>(row)] = static_cast<int32_t>(slot);
}

void SlotMap::use(int64_t slot) {
  SlotState& state = states_[static_cast<size_t>(slot)];
  if (state.batch == batch_) return;
  state.batch = batch_;
  if (state.pins++ == 0) {
    ++pinned_;
    kept_unpinned_ -= state.kept;
  }
  if (state.uses < kMostSlotUses) ++state.uses;
  batches_.back().push_back(static_cast<int32_t>(slot));
}

void SlotMap::release(bool updated) {
  DLRM_CHECK(!batches_.empty(), "no batch is placed");
  const std::vector<int32_t>& slots = batches_.front();
  if (whole_ && batches_.size() == 1) end_whole(slots);
  for (size_t i = 0; i < slots.size() && !whole_; ++i) {
    if (i + kAhead < slots.size()) {
      __builtin_prefetch(&states_[static_cast<size_t>(slots[i + kAhead])], 1);
    }
    SlotState& state = states_[static_cast<size_t>(slots[i])];
    state.dirty |= updated;
    if (--state.pins > 0) continue;
    --pinned_;
    kept_unpinned_ += state.kept;
  }
  spare_ = std::move(batches_.front());
  batches_.pop_front();
}

void SlotMap::keep(std::vector<bool> rows) {
  DLRM_CHECK(batches_.empty() && std::ssize(rows) == rows_);
  if (whole_) return;
  kept_ = std::move(rows);
  kept_unpinned_ = 0;
  for (size_t slot = 0; slot < states_.size(); ++slot) {
    const int64_t row = row_of_[slot];
    states_[slot].kept = row >= 0 && kept_[static_cast<size_t>(row)];
    kept_unpinned_ += states_[slot].kept;
  }
}

void SlotMap::clear() {
  DLRM_CHECK(batches_.empty(), "{} batches are in flight", batches_.size());
  std::fill(slot_of_.begin(), slot_of_.end(), -1);
  std::fill(row_of_.begin(), row_of_.end(), -1);
  std::fill(bits_.begin(), bits_.end(), RowBits());
  std::fill(states_.begin(), states_.end(), SlotState());
  kept_unpinned_ = 0;
}

}  // namespace dlrm
