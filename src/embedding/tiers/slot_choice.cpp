#include "slot_choice.h"

#include <algorithm>

#include "dlrm/core/hash.h"

namespace dlrm {
namespace {

class Clock final : public SlotChoice {
 public:
  bool fills_empty_slots() const override { return true; }
  int64_t choose(int64_t, View<SlotState> slots, bool all_kept) override {
    while (true) {
      const size_t slot = hand_;
      hand_ = (hand_ + 1) % slots.size();
      SlotState& state = slots[slot];
      if (state.pins > 0 || (state.kept && !all_kept)) continue;
      if (state.uses == 0) return static_cast<int64_t>(slot);
      --state.uses;
    }
  }

 private:
  size_t hand_ = 0;
};

class Lru16 final : public SlotChoice {
 public:
  bool fills_empty_slots() const override { return false; }
  int64_t choose(int64_t row, View<SlotState> slots, bool) override {
    constexpr size_t kWays = 16;
    const size_t sets = std::max<size_t>(slots.size() / kWays, 1);
    const size_t set = mix64(static_cast<uint64_t>(row)) % sets;
    const size_t end = set + 1 == sets ? slots.size() : (set + 1) * kWays;
    const SlotState* oldest = nullptr;
    for (const SlotState& state : slots.subspan(set * kWays, end - set * kWays)) {
      if (state.pins == 0 && (!oldest || state.batch < oldest->batch)) oldest = &state;
    }
    return oldest ? oldest - slots.data() : choose_elsewhere(slots);
  }

 private:
  int64_t choose_elsewhere(View<const SlotState> slots) {
    while (slots[hand_].pins > 0) hand_ = (hand_ + 1) % slots.size();
    return static_cast<int64_t>(hand_);
  }

  size_t hand_ = 0;  ///< where the search in other sets goes on
};

}  // namespace

std::unique_ptr<SlotChoice> make_clock() { return std::make_unique<Clock>(); }
std::unique_ptr<SlotChoice> make_lru16() { return std::make_unique<Lru16>(); }

}  // namespace dlrm
