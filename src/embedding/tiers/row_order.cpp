#include "row_order.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace dlrm {

void list_order(const SlotMap& map, const PlacedOrder& order) {
  std::vector<int32_t> slots = map.slots_in_batch();
  std::sort(slots.begin(), slots.end());
  const auto row_at = [&](int32_t at) {
    return map.row_of()[static_cast<size_t>(slots[static_cast<size_t>(at)])];
  };
  std::iota(order.by_row.begin(), order.by_row.end(), 0);
  std::sort(order.by_row.begin(), order.by_row.begin() + std::ssize(slots),
            [&](int32_t a, int32_t b) { return row_at(a) < row_at(b); });
  for (size_t i = 0; i < order.by_row.size(); ++i) {
    order.by_slot[static_cast<size_t>(order.by_row[i])] = static_cast<int32_t>(i);
  }
}

}  // namespace dlrm
