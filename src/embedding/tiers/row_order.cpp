#include "row_order.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace dlrm {

void list_order(View<const int64_t> rows, const PlacedOrder& order) {
  std::vector<int32_t> sorted(rows.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  const auto row_at = [&](int32_t at) { return rows[static_cast<size_t>(at)]; };
  std::sort(sorted.begin(), sorted.end(),
            [&](int32_t a, int32_t b) { return row_at(a) < row_at(b); });
  std::iota(order.by_row.begin(), order.by_row.end(), 0);
  std::iota(order.by_slot.begin(), order.by_slot.end(), 0);
  size_t interval = 0;
  auto at = static_cast<size_t>(order.first_ids[0]);
  for (const int32_t by_slot : sorted) {
    for (; interval < order.cuts.size() && row_at(by_slot) >= order.cuts[interval]; ++interval) {
      at = static_cast<size_t>(order.first_ids[interval + 1]);
    }
    order.by_row[at] = by_slot;
    order.by_slot[static_cast<size_t>(by_slot)] = static_cast<int32_t>(at);
    ++at;
  }
}

void list_order(const SlotMap& map, const PlacedOrder& order) {
  std::vector<int32_t> slots = map.slots_in_batch();
  std::sort(slots.begin(), slots.end());
  std::vector<int64_t> rows(slots.size());
  std::transform(slots.begin(), slots.end(), rows.begin(),
                 [&](int32_t slot) { return map.row_of()[static_cast<size_t>(slot)]; });
  list_order(rows, order);
}

}  // namespace dlrm
