#include "list_capacities.h"

#include <algorithm>
#include <cmath>

#include "dlrm/wire/list_room.h"

namespace dlrm {
namespace {

/// Full batches and the last one of an epoch, those of an evaluation, and as many again.
constexpr size_t kSizes = 8;

constexpr int kMostDoublings = 16;

int64_t with_slack(int64_t count, int doublings) {
  const double deviations = std::ldexp(kRoomDeviations, doublings);
  return static_cast<int64_t>(std::ceil(list_room(static_cast<double>(count), deviations)));
}

}  // namespace

void ListCapacities::begin(int64_t samples) {
  if (!started_) return;
  auto known = std::find_if(sizes_.begin(), sizes_.end(),
                            [&](const OfSize& size) { return size.samples == samples; });
  if (known == sizes_.end()) {
    if (sizes_.size() == kSizes) sizes_.pop_back();
    sizes_.push_back({samples, std::vector<Capacity>(lists_)});
    known = sizes_.end() - 1;
  }
  std::rotate(sizes_.begin(), known, known + 1);
}

int64_t ListCapacities::of(size_t list, int64_t count, int64_t most) {
  if (!started_) return count;
  Capacity& capacity = sizes_.front().capacities[list];
  if (count > capacity.entries || capacity.entries == 0) {
    capacity.entries = std::min(with_slack(count, capacity.doublings), most);
    if (count > 0) capacity.doublings = std::min(capacity.doublings + 1, kMostDoublings);
  }
  return capacity.entries;
}

}  // namespace dlrm
