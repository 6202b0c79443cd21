#pragma once
#include <cstdint>

namespace dlrm {

/// The ids of one group of a batch on the host. They are rows of a cached slice.
struct PlacedIds {
  int cache = 0;
  void* ids = nullptr;
  int64_t count = 0;
  bool narrow = false;  ///< int32 instead of int64
};

/// Calls visit(row) for each id.
template <class Visit>
void each_id(const PlacedIds& group, const Visit& visit) {
  for (int64_t i = 0; i < group.count; ++i) {
    visit(group.narrow ? static_cast<const int32_t*>(group.ids)[i]
                       : static_cast<const int64_t*>(group.ids)[i]);
  }
}

}  // namespace dlrm
