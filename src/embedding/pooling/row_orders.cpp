#include "row_orders.h"

#include <algorithm>
#include <numeric>

#include "embedding/tiers/placed_ids.h"
#include "embedding/tiers/row_order.h"

namespace dlrm {

std::vector<int> orders_of_groups(const OwnerLayout& mine) {
  std::vector<int> order_of_group;
  int orders = 0, last = -1;
  for (const RoutedGroup& group : mine.groups) {
    const bool ordered = mine.slices[static_cast<size_t>(group.slice)].ordered;
    if (ordered && group.slice != last) ++orders;
    if (ordered) last = group.slice;
    order_of_group.push_back(ordered ? orders - 1 : -1);
  }
  return order_of_group;
}

void list_orders(const EmbeddingLayout& layout, int rank, std::vector<int64_t>& rows,
                 OwnerSide& owner) {
  size_t number = 0;
  for (const Slice& slice : layout.owner(rank).slices) {
    if (!slice.ordered) continue;
    OwnerSide::RowOrders& order = owner.orders[number++];
    order.first_ids.assign(slice.cuts.size() + 2, 0);
    rows.clear();
    for (int g = 0; g < layout.features_of(slice.table); ++g) {
      const OwnerSide::HostIds& of_group =
          owner.host_ids[static_cast<size_t>(slice.first_group + g)];
      each_id({-1, of_group.ids, of_group.count, of_group.narrow}, [&](int64_t row) {
        const auto cut = std::upper_bound(slice.cuts.begin(), slice.cuts.end(), row);
        ++order.first_ids[static_cast<size_t>(cut - slice.cuts.begin()) + 1];
        if (slice.cache < 0) rows.push_back(row);
      });
    }
    std::partial_sum(order.first_ids.begin(), order.first_ids.end(), order.first_ids.begin());
    if (slice.cache >= 0) continue;
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    list_order(rows, {-1, order.by_row, order.by_slot, slice.cuts, order.first_ids});
  }
}

}  // namespace dlrm
