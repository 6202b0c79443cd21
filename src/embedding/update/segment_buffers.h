#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/device/device.h"
#include "dlrm/ops/embedding.h"

namespace dlrm {

/// The capacity of all groups together, in ids.
inline int64_t ids_in(View<const IdGroup> groups) {
  int64_t total = 0;
  for (const IdGroup& group : groups) total += group.capacity;
  return total;
}

/// Memory for several SegmentedRows. It grows if needed and is reused.
class SegmentBuffers {
 public:
  explicit SegmentBuffers(Device& device)
      : rows_(device, 0, "unique rows"),
        starts_(device, 0, "unique rows"),
        counts_(device, 0, "unique rows"),
        occurrences_(device, 0, "unique rows"),
        weights_(device, 0, "weights of ids") {}

  /// Reserves one SegmentedRows for each capacity, which is a number of ids. Those whose number is
  /// set in `weighted` get room for weights; empty: none.
  void reserve(View<const int64_t> capacities, View<const char> weighted = {});
  const SegmentedRows& operator[](size_t i) const { return segments_[i]; }
  size_t size() const { return segments_.size(); }

 private:
  Array<int64_t> rows_, starts_, counts_;
  Array<Occurrence> occurrences_;
  Array<float> weights_;
  std::vector<SegmentedRows> segments_;
};

}  // namespace dlrm
