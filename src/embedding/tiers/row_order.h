#pragma once
#include <cstdint>

#include "dlrm/core/view.h"

#include "slot_map.h"

namespace dlrm {

/// Two orders of the distinct rows of a batch in one slice: by slot, as a step sorts them, and by
/// row. Resident rows are their own slots. Owners of the same rows have them in different slots, or
/// among different other rows.
///
/// The order by row consists of the intervals between cuts. Each begins at the number of ids before
/// it. So intervals that several owners have take the same number of elements, which is that of
/// their ids. Both lists have an element for each id. Elements without a row are their own
/// positions.
struct PlacedOrder {
  int cache = 0;
  View<int32_t> by_row;           ///< the position by slot of each element by row
  View<int32_t> by_slot;          ///< the position by row of each element by slot
  View<const int64_t> cuts;       ///< rows at which intervals begin, without the first
  View<const int64_t> first_ids;  ///< [cuts + 2] ids before each interval, then their number
};

/// Fills the lists. `rows`: the rows in the order of their slots.
void list_order(View<const int64_t> rows, const PlacedOrder& order);
/// The same for the map's current batch.
void list_order(const SlotMap& map, const PlacedOrder& order);

}  // namespace dlrm
