#include <algorithm>
#include <atomic>
#include <cstring>

#include "cpu/cpu_ops.h"
#include "cpu/parallel.h"

namespace dlrm::cpu {
namespace {

constexpr int64_t kMovementGrain = 16384;  // elements per thread

struct Span {
  uintptr_t begin;
  uintptr_t end;
};

int64_t bytes_of(int64_t elements, DType type) {
  return elements * static_cast<int64_t>(size_of(type));
}

/// The row of dst that row r of the block is written to.
int64_t dst_row(const BlockCopy& b, int64_t r) { return b.dst_rows ? b.dst_rows[r] : r; }

Span written(const BlockCopy& b) {
  const auto first = reinterpret_cast<uintptr_t>(b.dst);
  const int64_t begin = bytes_of(dst_row(b, 0) * b.dst_stride, b.dst_type);
  const int64_t end = bytes_of(dst_row(b, b.rows - 1) * b.dst_stride + b.cols, b.dst_type);
  return {first + static_cast<uintptr_t>(begin), first + static_cast<uintptr_t>(end)};
}

bool empty(const BlockCopy& b) { return b.rows <= 0 || b.cols <= 0; }

/// The approximate number of elements that are written below `address`. Assumes that a block's
/// writes are spread evenly.
double work_below(View<const BlockCopy> blocks, uintptr_t address) {
  double sum = 0;
  for (const BlockCopy& b : blocks) {
    if (empty(b)) continue;
    const Span s = written(b);
    const double share = address <= s.begin ? 0
                         : address >= s.end ? 1
                                            : static_cast<double>(address - s.begin) /
                                                  static_cast<double>(s.end - s.begin);
    sum += share * static_cast<double>(b.rows * b.cols);
  }
  return sum;
}

/// An address at the start of a cache line such that about `work` elements are written below it.
uintptr_t cut_at(View<const BlockCopy> blocks, Span all, double work) {
  uintptr_t low = all.begin, high = all.end;
  for (int i = 0; i < 20; ++i) {
    const uintptr_t middle = low + (high - low) / 2;
    (work_below(blocks, middle) < work ? low : high) = middle;
  }
  return high / 64 * 64;
}

/// Rows [r0, r1) and columns [c0, c1) of a block.
BlockCopy cut(const BlockCopy& b, int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
  BlockCopy part = b;
  const int64_t src = c0 + (b.src_rows ? 0 : r0 * b.src_stride);
  const int64_t dst = c0 + (b.dst_rows ? 0 : r0 * b.dst_stride);
  part.src = static_cast<const char*>(b.src) + bytes_of(src, b.src_type);
  part.dst = static_cast<char*>(b.dst) + bytes_of(dst, b.dst_type);
  if (b.src_rows) part.src_rows = b.src_rows + r0;
  if (b.dst_rows) part.dst_rows = b.dst_rows + r0;
  part.rows = r1 - r0;
  part.cols = c1 - c0;
  if (b.scale) part.scale = b.scale + r0;
  return part;
}

/// The first cell of `b` at or after an address: a row of the block, and a column. The column is
/// `cols` if the address is between two rows.
struct Cell {
  int64_t row;
  int64_t column;
};
Cell cell_at(const BlockCopy& b, uintptr_t address) {
  const Span s = written(b);
  if (address <= s.begin) return {0, 0};
  if (address >= s.end) return {b.rows, 0};
  const auto bytes = static_cast<int64_t>(address - reinterpret_cast<uintptr_t>(b.dst));
  const int64_t position = bytes / static_cast<int64_t>(size_of(b.dst_type));
  const int64_t stride = std::max(b.dst_stride, b.cols);
  const int64_t row = position / stride, column = std::min(position % stride, b.cols);
  if (!b.dst_rows) return {row, column};
  const int64_t listed = std::lower_bound(b.dst_rows, b.dst_rows + b.rows, row) - b.dst_rows;
  return {listed, listed < b.rows && b.dst_rows[listed] == row ? column : 0};
}

/// Copies the cells of `b` with addresses in [from, to). Cuts rows that contain `from` or `to`.
template <class Copy>
void copy_within(const BlockCopy& b, uintptr_t from, uintptr_t to, const Copy& copy) {
  const Cell begin = cell_at(b, from), end = cell_at(b, to);
  int64_t r0 = begin.row;
  if (r0 == end.row) {
    if (begin.column < end.column) copy(cut(b, r0, r0 + 1, begin.column, end.column));
    return;
  }
  if (begin.column > 0) {
    copy(cut(b, r0, r0 + 1, begin.column, b.cols));
    ++r0;
  }
  if (r0 < end.row) copy(cut(b, r0, end.row, 0, b.cols));
  if (end.column > 0) copy(cut(b, end.row, end.row + 1, 0, end.column));
}

}  // namespace

/// Threads own disjoint address ranges, so that blocks that write the same cell keep their order.
void CpuOps::run(const CopyBlocks& o) {
  blocks_.assign(o.blocks.begin(), o.blocks.end());
  for (BlockCopy& b : blocks_) b.rows = copied_rows(b);
  int64_t total = 0;
  Span all{~uintptr_t{0}, 0};
  for (const BlockCopy& b : blocks_) {
    if (empty(b)) continue;
    const Span s = written(b);
    all = {std::min(all.begin, s.begin), std::max(all.end, s.end)};
    total += b.rows * b.cols;
  }
  const Parts parts = parts_for(threads_, total, kMovementGrain);
  if (parts == 1) {
    for (const BlockCopy& b : blocks_) {
      if (!empty(b)) kernels_.copy_rows(b);
    }
    return;
  }
  parallel(parts, [&](int part) {
    const double share = static_cast<double>(total) / parts;
    const uintptr_t from = part == 0 ? all.begin : cut_at(blocks_, all, part * share);
    const uintptr_t to = part + 1 == parts ? all.end : cut_at(blocks_, all, (part + 1) * share);
    for (const BlockCopy& b : blocks_) {
      if (!empty(b)) copy_within(b, from, to, kernels_.copy_rows);
    }
  });
}

void CpuOps::run(const Convert& o) {
  const auto& [x, y] = o;
  parallel_ranges(threads_, y.rows, y.cols, kMovementGrain, [&](int64_t r0, int64_t r1) {
    BlockCopy b;
    b.src = x.element(r0, 0);
    b.dst = y.element(r0, 0);
    b.src_type = x.type;
    b.dst_type = y.type;
    b.src_stride = x.stride;
    b.dst_stride = y.stride;
    b.rows = r1 - r0;
    b.cols = y.cols;
    kernels_.copy_rows(b);
  });
}

void CpuOps::run(const Add& o) {
  const auto& [x, y] = o;
  parallel_ranges(threads_, y.rows, y.cols, kMovementGrain,
                  [&](int64_t r0, int64_t r1) { kernels_.add(x, y, r0, r1); });
}

void CpuOps::run(const AddRowSums& o) {
  parallel_ranges(threads_, o.x.rows, o.x.cols, kMovementGrain,
                  [&](int64_t r0, int64_t r1) { kernels_.add_row_sums(o.x, o.y, r0, r1); });
}

void CpuOps::run(const RepeatColumn& o) {
  parallel_ranges(threads_, o.y.rows, o.y.cols, kMovementGrain,
                  [&](int64_t r0, int64_t r1) { kernels_.repeat_column(o.x, o.y, r0, r1); });
}

void CpuOps::run(const FillZero& o) {
  const auto size = static_cast<int64_t>(o.bytes.size());
  parallel_ranges(threads_, size, 1, 1 << 20, [&](int64_t b0, int64_t b1) {
    std::memset(o.bytes.data() + b0, 0, static_cast<size_t>(b1 - b0));
  });
}

void CpuOps::run(const FindNonFinite& o) {
  const auto& [x, bad] = o;
  std::atomic<bool> finite{true};
  parallel_ranges(threads_, x.rows, x.cols, kMovementGrain, [&](int64_t r0, int64_t r1) {
    if (!kernels_.all_finite(x, r0, r1)) finite = false;
  });
  if (!finite) bad[0] = 1;
}

}  // namespace dlrm::cpu
