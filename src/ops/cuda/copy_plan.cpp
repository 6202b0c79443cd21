#include "cuda/copy_plan.h"

#include <algorithm>
#include <limits>

namespace dlrm::cuda {
namespace {

constexpr size_t kPlansKept = 16;

/// Where a block writes, in bytes: `length` of each row.
struct Written {
  uintptr_t begin, end;
  uint64_t stride, length;
  bool one_row;
};

Written written(const BlockCopy& b) {
  const auto size = static_cast<uint64_t>(size_of(b.dst_type));
  Written w;
  w.begin = reinterpret_cast<uintptr_t>(b.dst);
  w.stride = static_cast<uint64_t>(b.dst_stride) * size;
  w.length = static_cast<uint64_t>(b.cols) * size;
  w.one_row = b.rows == 1 && !b.dst_rows;
  w.end = b.dst_rows ? std::numeric_limits<uintptr_t>::max()
                     : w.begin + static_cast<uint64_t>(b.rows - 1) * w.stride + w.length;
  return w;
}

/// False where two blocks write different places for certain.
bool may_meet(const Written& a, const Written& b) {
  if (a.end <= b.begin || b.end <= a.begin) return false;
  if (a.stride != b.stride && !a.one_row && !b.one_row) return true;
  const uint64_t stride = a.one_row ? b.stride : a.stride;
  if (stride == 0) return true;
  // Columns of a pitch that both share: a takes the first of it, b lies `behind`.
  const uint64_t behind =
      b.begin >= a.begin ? (b.begin - a.begin) % stride : stride - (a.begin - b.begin) % stride;
  return behind < a.length || behind + b.length > stride;
}

bool same(const BlockCopy& a, const BlockCopy& b) {
  return a.src == b.src && a.dst == b.dst && a.src_type == b.src_type && a.dst_type == b.dst_type &&
         a.src_stride == b.src_stride && a.dst_stride == b.dst_stride && a.rows == b.rows &&
         a.cols == b.cols && a.scale == b.scale && a.src_rows == b.src_rows &&
         a.dst_rows == b.dst_rows && a.accumulate == b.accumulate;
}

/// For each block the launch that it belongs to: behind those of all earlier blocks that it may
/// meet.
std::vector<int> levels(View<const BlockCopy> blocks) {
  std::vector<Written> places;
  std::vector<int> level;
  places.reserve(blocks.size());
  for (const BlockCopy& block : blocks) {
    const Written place = written(block);
    int behind = 0;
    for (size_t i = 0; i < places.size(); ++i) {
      if (level[i] >= behind && may_meet(places[i], place)) behind = level[i] + 1;
    }
    places.push_back(place);
    level.push_back(behind);
  }
  return level;
}

kernels::CopyRectangle rectangle(const BlockCopy& b, int64_t* units) {
  kernels::CopyRectangle r = kernels::divide(
      {b.src, b.dst, b.src_type, b.dst_type, b.src_stride, b.dst_stride, b.rows, b.cols}, units);
  r.scale = b.scale;
  r.src_rows = b.src_rows;
  r.dst_rows = b.dst_rows;
  r.accumulate = b.accumulate;
  return r;
}

}  // namespace

CopyPlan plan_copies(View<const BlockCopy> blocks) {
  std::vector<BlockCopy> filled;
  for (const BlockCopy& b : blocks) {
    if (b.rows > 0 && b.cols > 0) filled.push_back(b);
  }
  const std::vector<int> level = levels(filled);
  const int launches = level.empty() ? 0 : *std::max_element(level.begin(), level.end()) + 1;
  CopyPlan plan;
  for (int l = 0; l < launches; ++l) {
    CopyPlan::Launch launch;
    launch.first = static_cast<int>(plan.rectangles.size());
    for (size_t i = 0; i < filled.size(); ++i) {
      if (level[i] != l) continue;
      int64_t units = 0;
      plan.rectangles.push_back(rectangle(filled[i], &units));
      plan.rectangles.back().first_unit = launch.units;
      launch.units += units;
    }
    launch.count = static_cast<int>(plan.rectangles.size()) - launch.first;
    plan.launches.push_back(launch);
  }
  return plan;
}

const CopyPlan& CopyPlans::of(View<const BlockCopy> blocks) {
  for (const Known& k : known_) {
    if (std::equal(k.blocks.begin(), k.blocks.end(), blocks.begin(), blocks.end(), same)) {
      return k.plan;
    }
  }
  if (known_.size() < kPlansKept) {
    oldest_ = known_.size();
    known_.emplace_back();
  }
  Known& place = known_[oldest_];
  oldest_ = (oldest_ + 1) % kPlansKept;
  place.blocks.assign(blocks.begin(), blocks.end());
  place.plan = plan_copies(blocks);
  return place.plan;
}

}  // namespace dlrm::cuda
