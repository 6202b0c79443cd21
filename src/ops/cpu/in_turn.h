#pragma once
#include <cstdint>

namespace dlrm::cpu {

/// The first i of `size` items with before(i) >= work, found by bisection. before(i) must not
/// decrease.
template <class Before>
int64_t first_at(int64_t size, int64_t work, const Before& before) {
  int64_t low = 0, high = size;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (before(middle) < work) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Processes ranges of items in order: fetch(item, begin, end) prefetches a range, and
/// work(item, begin, end) processes it. A range is fetched before the work on the previous range.
/// If the previous range is long, its work is done first, because fetched data would leave the
/// cache.
template <class Item, class Fetch, class Work>
class InTurn {
 public:
  InTurn(Fetch fetch, Work work) : fetch_(fetch), work_(work) {}

  void add(const Item& item, int64_t begin, int64_t end, int64_t elements) {
    constexpr int64_t kShort = 1 << 16;
    if (elements_ > kShort) finish();
    fetch_(item, begin, end);
    finish();
    item_ = &item;
    begin_ = begin;
    end_ = end;
    elements_ = elements;
  }
  void finish() {
    if (item_) work_(*item_, begin_, end_);
    item_ = nullptr;
  }

 private:
  Fetch fetch_;
  Work work_;
  const Item* item_ = nullptr;
  int64_t begin_ = 0, end_ = 0, elements_ = 0;
};
template <class Item, class Fetch, class Work>
InTurn<Item, Fetch, Work> in_turn(Fetch fetch, Work work) {
  return {fetch, work};
}

}  // namespace dlrm::cpu
