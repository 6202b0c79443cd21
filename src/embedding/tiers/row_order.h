#pragma once
#include <cstdint>

#include "dlrm/core/view.h"

#include "slot_map.h"

namespace dlrm {

/// Two orders of the distinct rows of a batch in one cache: by slot, as a step sorts them, and by
/// row. Owners of the same rows have them in different slots. Both lists have an element for each
/// id. Those that exceed the number of rows are their own positions.
struct PlacedOrder {
  int cache = 0;
  View<int32_t> by_row;   ///< the position by slot of row i
  View<int32_t> by_slot;  ///< the position by row of slot i
};

/// Fills the lists for the map's current batch.
void list_order(const SlotMap& map, const PlacedOrder& order);

}  // namespace dlrm
