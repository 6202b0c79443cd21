#include "slot_map.h"

#include <algorithm>
#include <limits>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

/// Rows are far apart in memory. So many ids ahead, their states are brought to the processor.
constexpr size_t kSlotsAhead = 32;

}  // namespace

SlotMap::SlotMap(int64_t rows, int64_t slots, std::unique_ptr<SlotChoice> choice)
    : rows_(rows), row_of_(static_cast<size_t>(slots), -1), choice_(std::move(choice)) {
  DLRM_CHECK(slots > 0 && slots <= rows && rows < std::numeric_limits<int32_t>::max(),
             "{} slots for {} rows", slots, rows);
}

void SlotMap::begin() {
  batches_.emplace_back().oldest = first_;
  if (current() - base_ >= kBatchNumbers) renumber();
}

void SlotMap::renumber() {
  const uint32_t oldest = number_of(first_);
  for (int64_t row = 0; row < rows_.size(); ++row) {
    RowState& state = rows_[row];
    if (state.batch >= oldest) {
      state.batch -= oldest - 1;
    } else if (state.batch > 0) {
      state.dirty = is_dirty(state);
      state.batch = 0;
    }
  }
  base_ = first_ - 1;
}

template <class Id>
int64_t SlotMap::place(View<Id> ids, std::vector<SlotChange>& changes) {
  const uint32_t current_batch = number_of(current());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i + kSlotsAhead < ids.size()) __builtin_prefetch(&rows_[ids[i + kSlotsAhead]], 1);
    RowState& row = rows_[ids[i]];
    const bool fetched = row.slot_after == 0;
    if (fetched && take_slot(ids[i], changes) < 0) return static_cast<int64_t>(i);
    if (row.batch != current_batch) use(row, fetched);
    ids[i] = static_cast<Id>(row.slot_after - 1);
  }
  return static_cast<int64_t>(ids.size());
}
template int64_t SlotMap::place(View<int32_t>, std::vector<SlotChange>&);
template int64_t SlotMap::place(View<int64_t>, std::vector<SlotChange>&);

bool SlotMap::is_dirty(const RowState& row) const {
  const int64_t batch = base_ + row.batch;
  return row.dirty || (row.batch > 0 && (batch < clean_begin_ || batch >= clean_end_));
}

int64_t SlotMap::take_slot(int64_t row, std::vector<SlotChange>& changes) {
  if (pinned_ == slots()) return -1;
  const int64_t slot = choose(row);
  SlotChange change{slot, row, row_of_[static_cast<size_t>(slot)], false};
  if (change.evicted >= 0) {
    RowState& evicted = rows_[change.evicted];
    change.dirty = is_dirty(evicted);
    kept_unpinned_ -= evicted.kept;
    evicted = {};
  }
  put(row, slot);
  changes.push_back(change);
  return slot;
}

int64_t SlotMap::fill(int64_t row) {
  if (pinned_ == slots()) return -1;
  const int64_t slot = choose(row);
  if (row_of_[static_cast<size_t>(slot)] >= 0) return -1;
  put(row, slot);
  return slot;
}

int64_t SlotMap::choose(int64_t row) {
  return choice_->choose(
      row, {rows_.data(), row_of_, number_of(first_), pinned_ + kept_unpinned_ == slots()});
}

void SlotMap::put(int64_t row, int64_t slot) {
  RowState& state = rows_[row];
  state = {.slot_after = static_cast<int32_t>(slot + 1), .kept = state.kept};
  kept_unpinned_ += state.kept;
  row_of_[static_cast<size_t>(slot)] = row;
}

void SlotMap::use(RowState& row, bool fetched) {
  InFlight& batch = batches_.back();
  if (row.batch >= number_of(first_)) {
    InFlight& before = batches_[row.batch - number_of(first_)];
    --before.rows;
    before.kept -= row.kept;
  } else {
    row.dirty = is_dirty(row);
    ++pinned_;
    kept_unpinned_ -= row.kept;
  }
  ++batch.rows;
  batch.kept += row.kept;
  if (!fetched && row.uses < kMostSlotUses) ++row.uses;
  row.batch = number_of(current());
  if (lists_slots_) batch.slots.push_back(row.slot_after - 1);
}

void SlotMap::release(bool updated) {
  DLRM_CHECK(!batches_.empty(), "no batch is placed");
  InFlight& batch = batches_.front();
  pinned_ -= batch.rows;
  kept_unpinned_ += batch.kept;
  // A row of this batch may have been changed by one that was in flight when this one began.
  if (updated || last_update_ >= batch.oldest) {
    last_update_ = first_;
  } else {
    if (clean_end_ != first_) clean_begin_ = first_;
    clean_end_ = first_ + 1;
  }
  batches_.pop_front();
  ++first_;
}

void SlotMap::keep(std::vector<bool> rows) {
  DLRM_CHECK(batches_.empty() && std::ssize(rows) == rows_.size());
  kept_unpinned_ = 0;
  for (int64_t row = 0; row < rows_.size(); ++row) {
    RowState& state = rows_[row];
    state.kept = rows[static_cast<size_t>(row)];
    kept_unpinned_ += state.kept && state.slot_after > 0;
  }
}

void SlotMap::clear() {
  DLRM_CHECK(batches_.empty(), "{} batches are in flight", batches_.size());
  for (int64_t row = 0; row < rows_.size(); ++row) {
    // Memory that was never written takes none if it is only read.
    if (rows_[row].slot_after > 0) rows_[row] = {.kept = rows_[row].kept};
  }
  std::fill(row_of_.begin(), row_of_.end(), -1);
  kept_unpinned_ = 0;
}

}  // namespace dlrm
