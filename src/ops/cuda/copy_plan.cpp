#include "cuda/copy_plan.h"

#include <algorithm>
#include <limits>

namespace dlrm::cuda {
namespace {

constexpr size_t kPlansKept = 16;

/// The bytes that a block writes: `length` in each row.
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

/// False if two blocks can never write the same place.
bool may_meet(const Written& a, const Written& b) {
  if (a.end <= b.begin || b.end <= a.begin) return false;
  if (a.stride != b.stride && !a.one_row && !b.one_row) return true;
  const uint64_t stride = a.one_row ? b.stride : a.stride;
  if (stride == 0) return true;
  // Compares the columns modulo the stride: b starts `behind` bytes after a.
  const uint64_t behind =
      b.begin >= a.begin ? (b.begin - a.begin) % stride : stride - (a.begin - b.begin) % stride;
  return behind < a.length || behind + b.length > stride;
}

bool same(const BlockCopy& a, const BlockCopy& b) {
  return a.src == b.src && a.dst == b.dst && a.src_type == b.src_type && a.dst_type == b.dst_type &&
         a.src_stride == b.src_stride && a.dst_stride == b.dst_stride && a.rows == b.rows &&
         a.cols == b.cols && a.scale == b.scale && a.src_rows == b.src_rows &&
         a.dst_rows == b.dst_rows && a.dst_height == b.dst_height && a.accumulate == b.accumulate &&
         a.disjoint == b.disjoint;
}

/// Blocks that one thread applies in turn, and the number of their launch.
struct Chain {
  std::vector<size_t> blocks;
  int level = 0;
  bool listed = false;  ///< some have lists of dst rows
};

/// True if `b` writes cells of a chain that starts with `first`, from sources of the same type, and
/// in an order that leaves each cell to one thread.
bool continues(const Chain& chain, const BlockCopy& first, const BlockCopy& b) {
  if (b.dst != first.dst || b.dst_type != first.dst_type || b.dst_stride != first.dst_stride ||
      b.cols != first.cols || b.src_type != first.src_type || first.dst_rows || first.src_rows ||
      b.src_rows) {
    return false;
  }
  if (b.dst_rows) return b.accumulate && b.dst_height > 0 && b.dst_height <= first.rows;
  return b.rows == first.rows && (b.accumulate || !chain.listed);
}

/// A block joins the chain of its place if that is the last one that it may overlap. What it writes
/// the first block of the chain writes too, so the chain follows the others that it overlaps.
/// Otherwise the block gets a later launch than all chains that it may overlap.
std::vector<Chain> chains(View<const BlockCopy> blocks) {
  std::vector<Written> places;  // one per chain
  std::vector<Chain> all;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Written place = written(blocks[i]);
    int level = 0;
    size_t last = 0;
    for (size_t c = 0; c < all.size(); ++c) {
      if (blocks[i].disjoint && blocks[all[c].blocks.front()].disjoint) continue;
      if (!may_meet(places[c], place)) continue;
      level = std::max(level, all[c].level + 1);
      last = c;
    }
    if (level > 0 && continues(all[last], blocks[all[last].blocks.front()], blocks[i])) {
      all[last].blocks.push_back(i);
      all[last].listed |= blocks[i].dst_rows != nullptr;
      continue;
    }
    places.push_back(place);
    all.push_back({{i}, level, false});
  }
  return all;
}

kernels::CopyShape shape_of(const BlockCopy& b) {
  return {b.src, b.dst, b.src_type, b.dst_type, b.src_stride, b.dst_stride, b.rows, b.cols};
}

kernels::CopyRectangle rectangle(const BlockCopy& b, bool fours, bool listed, int64_t* units) {
  kernels::CopyRectangle r = kernels::divide(shape_of(b), fours, listed, units);
  r.scale = b.scale;
  r.src_rows = b.src_rows;
  r.dst_rows = b.dst_rows;
  r.accumulate = b.accumulate;
  return r;
}

/// Appends a chain to `launch`. The members directly follow the first one and have no units of
/// their own.
void append(View<const BlockCopy> blocks, const Chain& chain, CopyPlan& plan,
            CopyPlan::Launch& launch) {
  bool fours = true;
  for (const size_t i : chain.blocks) fours &= kernels::in_fours(shape_of(blocks[i]));
  int64_t units = 0;
  for (const size_t i : chain.blocks) {
    const bool first = i == chain.blocks.front();
    int64_t of_block = 0;
    kernels::CopyRectangle r = rectangle(blocks[i], fours, chain.listed, &of_block);
    if (first) units = of_block;
    r.first_unit = launch.units + (first ? 0 : units);
    if (first) r.chain = static_cast<int32_t>(chain.blocks.size());
    plan.rectangles.push_back(r);
  }
  launch.units += units;
}

}  // namespace

CopyPlan plan_copies(View<const BlockCopy> blocks) {
  std::vector<BlockCopy> filled;
  for (const BlockCopy& b : blocks) {
    if (b.rows > 0 && b.cols > 0) filled.push_back(b);
  }
  const std::vector<Chain> all = chains(filled);
  int launches = 0;
  for (const Chain& chain : all) launches = std::max(launches, chain.level + 1);
  CopyPlan plan;
  for (int l = 0; l < launches; ++l) {
    CopyPlan::Launch launch;
    launch.first = static_cast<int>(plan.rectangles.size());
    for (const Chain& chain : all) {
      if (chain.level == l) append(filled, chain, plan, launch);
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
