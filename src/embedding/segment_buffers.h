#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/device/device.h"
#include "dlrm/ops/embedding.h"

namespace dlrm {

/// Number of ids in a list of groups.
inline int64_t ids_in(View<const IdGroup> groups) {
  int64_t total = 0;
  for (const IdGroup& group : groups) total += group.capacity;
  return total;
}

/// Memory of several SegmentedRows, grown and used again.
class SegmentBuffers {
 public:
  explicit SegmentBuffers(Device& device)
      : rows_(device, 0, "unique rows"),
        starts_(device, 0, "unique rows"),
        counts_(device, 0, "unique rows"),
        occurrences_(device, 0, "unique rows") {}

  /// Makes room for one SegmentedRows of each capacity (number of ids).
  void make_room(View<const int64_t> capacities);
  const SegmentedRows& operator[](size_t i) const { return runs_[i]; }
  size_t size() const { return runs_.size(); }

 private:
  Array<int64_t> rows_, starts_, counts_;
  Array<Occurrence> occurrences_;
  std::vector<SegmentedRows> runs_;
};

}  // namespace dlrm
