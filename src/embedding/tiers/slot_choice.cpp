#include "slot_choice.h"

#include <algorithm>

#include "dlrm/core/hash.h"

namespace dlrm {
namespace {

class SecondChance final : public SlotChoice {
 public:
  int64_t choose(int64_t, const SlotTable& slots) override {
    while (true) {
      const size_t slot = hand_;
      // Rows of consecutive slots are far apart in memory.
      if (slot + kAhead < slots.row_of.size()) __builtin_prefetch(slots.at(slot + kAhead), 1);
      hand_ = (hand_ + 1) % slots.row_of.size();
      RowState* row = slots.at(slot);
      if (row && (slots.is_pinned(*row) || (row->kept && !slots.all_kept))) continue;
      if (!row || row->uses == 0) return static_cast<int64_t>(slot);
      --row->uses;
    }
  }

 private:
  static constexpr size_t kAhead = 16;

  size_t hand_ = 0;
};

class Lru16 final : public SlotChoice {
 public:
  int64_t choose(int64_t row, const SlotTable& slots) override {
    constexpr size_t kWays = 16;
    const size_t count = slots.row_of.size(), sets = std::max<size_t>(count / kWays, 1);
    const size_t set = mix64(static_cast<uint64_t>(row)) % sets;
    const size_t end = set + 1 == sets ? count : (set + 1) * kWays;
    size_t chosen = count;
    uint32_t oldest = 0;
    for (size_t slot = set * kWays; slot < end; ++slot) {
      const RowState* held = slots.at(slot);
      if (!held) return static_cast<int64_t>(slot);
      if (slots.is_pinned(*held) || (chosen < count && held->batch >= oldest)) continue;
      chosen = slot;
      oldest = held->batch;
    }
    return chosen < count ? static_cast<int64_t>(chosen) : choose_elsewhere(slots);
  }

 private:
  int64_t choose_elsewhere(const SlotTable& slots) {
    const auto is_taken = [&] {
      const RowState* row = slots.at(hand_);
      return row && slots.is_pinned(*row);
    };
    while (is_taken()) hand_ = (hand_ + 1) % slots.row_of.size();
    return static_cast<int64_t>(hand_);
  }

  size_t hand_ = 0;  ///< where the search in other sets goes on
};

}  // namespace

std::unique_ptr<SlotChoice> make_clock() { return std::make_unique<SecondChance>(); }
std::unique_ptr<SlotChoice> make_lru16() { return std::make_unique<Lru16>(); }

}  // namespace dlrm
