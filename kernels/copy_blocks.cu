// dst[r, c] = scale[r]·src[r, c], or dst += that, computed in fp32 and rounded once. Either side
// may have a list of row numbers, in which -1 stands for no row. A block of threads copies one unit
// of one rectangle. Its warps search the prefix sums of units for the rectangle, 32 entries at a
// time.
// A thread applies all rectangles of a chain to its cells. If some of them have lists of dst rows,
// the block of threads first finds which of them have which of its rows, for kTile rectangles at a
// time. A thread then reads only those of its row, in their order.
// Bytes per element: the element of both sides (dst twice for a sum that is no chain). Bytes per
// row: 8 + 4 for the scale and the row lists. Limit: the bandwidth of a copy if rows are 128 bytes
// or longer, and the latency of a few reads per tile for chains of many short lists.
#include "kernels/copy_blocks.h"
#include "kernels/rows.cuh"

namespace dlrm::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kRowsPerThread = 8;
constexpr int kTogether = 4;  ///< rows whose loads are in flight together
constexpr int kEach = 4;      ///< rectangles whose lists a thread searches together
constexpr int kTile = kEach * kThreads;
constexpr int kWords = kTile / 32;
constexpr int kMostListedRows = 32;  ///< of a unit of a chain with lists

/// The last rectangle that starts at or before `unit`.
__device__ int rectangle_of(const CopyRectangle* rectangles, int count, int64_t unit) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  int first = 0;
  while (count > 1) {
    const int step = (count + 31) / 32, i = first + lane * step;
    const bool starts = lane * step < count && rectangles[i].first_unit <= unit;
    const int passed = __popc(__ballot_sync(0xffffffffu, starts)) - 1;
    count = min(step, count - passed * step);
    first += passed * step;
  }
  return first;
}

/// Column c of rows r, r + step, ... At most kTogether rows. to[k] is null if there is no row k.
template <class From, class To, int N>
__device__ __forceinline__ void copy_cells(const CopyRectangle* chain, const CopyRectangle& first,
                                           int64_t r, int64_t step, int64_t c) {
  Pack<To, N> cells[kTogether];
  To* to[kTogether];
#pragma unroll
  for (int k = 0; k < kTogether; ++k) {
    const int64_t row = r + k * step;
    to[k] = nullptr;
    if (row >= first.rows || (first.src_rows && first.src_rows[row] < 0)) continue;
    const int64_t dst_row = first.dst_rows ? first.dst_rows[row] : row;
    if (dst_row < 0) continue;
    to[k] = static_cast<To*>(first.dst) + dst_row * first.dst_stride + c;
    if (first.accumulate) cells[k] = load_pack<N>(to[k]);
  }
  for (int m = 0; m < first.chain; ++m) {
    const CopyRectangle& b = chain[m];
    Pack<From, N> from[kTogether];
    float scale[kTogether];
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const int64_t row = r + k * step;
      if (to[k] == nullptr) continue;
      const int64_t src_row = b.src_rows ? b.src_rows[row] : row;
      scale[k] = b.scale ? b.scale[row] : 1.0f;
      from[k] = load_pack<N>(static_cast<const From*>(b.src) + src_row * b.src_stride + c);
    }
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      if (to[k] == nullptr) continue;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        float value = to_float(from[k].at[i]);
        if (b.scale) value = __fmul_rn(value, scale[k]);
        if (b.accumulate) value = __fadd_rn(to_float(cells[k].at[i]), value);
        cells[k].at[i] = from_float<To>(value);
      }
    }
  }
#pragma unroll
  for (int k = 0; k < kTogether; ++k) {
    if (to[k] != nullptr) store_pack(to[k], cells[k]);
  }
}

template <class From, class To>
__device__ __forceinline__ void copy_unit(const CopyRectangle* chain, const CopyRectangle& b,
                                          int64_t unit) {
  const int down = kThreads >> b.shift;
  const int64_t band = unit / b.units_across, column = unit % b.units_across;
  const int64_t group = (column << b.shift) + (threadIdx.x & ((1u << b.shift) - 1));
  const int64_t first = band * down * kRowsPerThread + (threadIdx.x >> b.shift);
  if (group >= b.groups) return;
  for (int i = 0; i < kRowsPerThread; i += kTogether) {
    const int64_t r = first + int64_t{i} * down;
    if (b.length == 1) {
      copy_cells<From, To, 1>(chain, b, r, down, group);
    } else {
      copy_cells<From, To, 4>(chain, b, r, down, group * 4);
    }
  }
}

/// Rows of a unit of a chain with lists.
__host__ __device__ int listed_rows(int shift) {
  const int rows = (kThreads >> shift) * kTogether;
  return rows < kMostListedRows ? rows : kMostListedRows;
}

/// A rectangle in a unit's rows.
struct Addend {
  const void* src;     ///< of the first of them that it has
  const float* scale;  ///< likewise, or null
  int64_t src_stride;
  uint32_t rows;  ///< bits: those that it has
};
/// The rectangles of a tile, in shared memory.
struct Tile {
  Addend* addends;   ///< [kTile]
  uint32_t* of_row;  ///< [kMostListedRows, kWords] bits: the rectangles that have the row
};

/// The first entry of an ascending list, at whose end may be -1, that is at least `row`.
__device__ int64_t first_entry(const int32_t* list, int64_t count, int64_t row) {
  int64_t first = 0;
  while (row > 0 && first < count) {
    const int64_t middle = (first + count) / 2;
    if (static_cast<uint32_t>(list[middle]) < static_cast<uint32_t>(row)) {
      first = middle + 1;
    } else {
      count = middle;
    }
  }
  return first;
}

/// The row of an entry of a list, or of a rectangle without one, counted from `begin`.
__device__ uint32_t row_at(const int32_t* list, int64_t count, int64_t entry, int64_t begin) {
  if (entry >= count) return 0xffffffffu;
  return static_cast<uint32_t>(list ? list[entry] : entry) - static_cast<uint32_t>(begin);
}

/// Finds what `count` rectangles add to `rows` rows from `begin` on. All threads of the block call
/// it.
template <class From>
__device__ void find_addends(const CopyRectangle* rectangles, int count, int64_t begin, int rows,
                             const Tile& tile) {
  const auto thread = static_cast<int>(threadIdx.x);
  __syncthreads();  // the previous tile is done
  for (int i = thread; i < kMostListedRows * kWords; i += kThreads) tile.of_row[i] = 0;
  for (int i = thread; i < count; i += kThreads) tile.addends[i].rows = 0;
  __syncthreads();
  int shift = 0;  // 2^shift threads for each rectangle
  while (count << (shift + 1) <= kThreads) ++shift;
  const int number = thread >> shift, lane = thread & ((1 << shift) - 1);
  const int32_t* lists[kEach];
  int64_t counts[kEach], entries[kEach];
  uint32_t found[kEach];
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    counts[k] = 0;
    if (number + k * kThreads >= count) continue;
    lists[k] = rectangles[number + k * kThreads].dst_rows;
    counts[k] = rectangles[number + k * kThreads].rows;
  }
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    if (counts[k] == 0) continue;
    entries[k] = lists[k] ? first_entry(lists[k], counts[k], begin) : begin;
    found[k] = row_at(lists[k], counts[k], entries[k] + lane, begin);
  }
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    if (counts[k] == 0) continue;
    const int at = number + k * kThreads;
    Addend& addend = tile.addends[at];
    if (lane == 0) {
      const CopyRectangle& b = rectangles[at];
      addend.src = static_cast<const From*>(b.src) + entries[k] * b.src_stride;
      addend.scale = b.scale ? b.scale + entries[k] : nullptr;
      addend.src_stride = b.src_stride;
    }
    int64_t entry = entries[k] + lane;
    for (uint32_t row = found[k]; row < static_cast<uint32_t>(rows);) {
      atomicOr(&addend.rows, 1u << row);
      atomicOr(&tile.of_row[row * kWords + at / 32], 1u << at % 32);
      entry += 1 << shift;
      row = row_at(lists[k], counts[k], entry, begin);
    }
  }
  __syncthreads();
}

/// Adds a tile's cells in columns [c, c + N) to the unit's rows row, row + step, ... `cells` has
/// kTogether of them, of which bits `mine` exist.
template <class From, class To, int N>
__device__ __forceinline__ void add_tile(const Tile& tile, int count, int row, int step, int64_t c,
                                         unsigned mine, Pack<To, N>* cells) {
  for (int word = 0; word * 32 < count; ++word) {
    uint32_t left[kTogether], any = 0;
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      left[k] = mine >> k & 1 ? tile.of_row[(row + k * step) * kWords + word] : 0;
      any |= left[k];
    }
    while (any != 0) {
      Pack<From, N> from[kTogether];
      float scale[kTogether];
      unsigned read = 0, scaled = 0;
      any = 0;
#pragma unroll
      for (int k = 0; k < kTogether; ++k) {
        if (left[k] == 0) continue;
        const Addend& addend = tile.addends[word * 32 + __ffs(left[k]) - 1];
        left[k] &= left[k] - 1;
        any |= left[k];
        const int at = __popc(addend.rows & ((1u << (row + k * step)) - 1));
        from[k] = load_pack<N>(static_cast<const From*>(addend.src) + at * addend.src_stride + c);
        if (addend.scale) scale[k] = addend.scale[at];
        scaled |= (addend.scale ? 1u : 0u) << k;
        read |= 1u << k;
      }
#pragma unroll
      for (int k = 0; k < kTogether; ++k) {
        if ((read >> k & 1) == 0) continue;
#pragma unroll
        for (int i = 0; i < N; ++i) {
          float value = to_float(from[k].at[i]);
          if (scaled >> k & 1) value = __fmul_rn(value, scale[k]);
          cells[k].at[i] = from_float<To>(__fadd_rn(to_float(cells[k].at[i]), value));
        }
      }
    }
  }
}

/// Like copy_cells(), for a chain with lists. All threads of the block call it.
template <class From, class To, int N>
__device__ __forceinline__ void sum_cells(const CopyRectangle* chain, const CopyRectangle& first,
                                          int64_t begin, int row, int step, int64_t group,
                                          const Tile& tile) {
  const int rows = listed_rows(first.shift);
  const int64_t c = group * N;
  Pack<To, N> cells[kTogether];
  unsigned mine = 0;
#pragma unroll
  for (int k = 0; k < kTogether; ++k) {
    const int64_t r = begin + row + k * step;
    if (group >= first.groups || row + k * step >= rows || r >= first.rows) continue;
    mine |= 1u << k;
    const auto from = load_pack<N>(static_cast<const From*>(first.src) + r * first.src_stride + c);
    if (first.accumulate) {
      cells[k] = load_pack<N>(static_cast<To*>(first.dst) + r * first.dst_stride + c);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
      float value = to_float(from.at[i]);
      if (first.scale) value = __fmul_rn(value, first.scale[r]);
      if (first.accumulate) value = __fadd_rn(to_float(cells[k].at[i]), value);
      cells[k].at[i] = from_float<To>(value);
    }
  }
  for (int m = 1; m < first.chain; m += kTile) {
    const int count = min(kTile, first.chain - m);
    find_addends<From>(chain + m, count, begin, rows, tile);
    add_tile<From, To, N>(tile, count, row, step, c, mine, cells);
  }
#pragma unroll
  for (int k = 0; k < kTogether; ++k) {
    if ((mine >> k & 1) == 0) continue;
    const int64_t r = begin + row + k * step;
    store_pack(static_cast<To*>(first.dst) + r * first.dst_stride + c, cells[k]);
  }
}

template <class From, class To>
__device__ __forceinline__ void sum_unit(const CopyRectangle* chain, const CopyRectangle& b,
                                         int64_t unit, const Tile& tile) {
  const int64_t band = unit / b.units_across, column = unit % b.units_across;
  const int64_t group = (column << b.shift) + (threadIdx.x & ((1u << b.shift) - 1));
  const int64_t begin = band * listed_rows(b.shift);
  const auto row = static_cast<int>(threadIdx.x >> b.shift);
  if (b.length == 1) {
    sum_cells<From, To, 1>(chain, b, begin, row, kThreads >> b.shift, group, tile);
  } else {
    sum_cells<From, To, 4>(chain, b, begin, row, kThreads >> b.shift, group, tile);
  }
}

template <class From, class To>
__device__ __forceinline__ void apply_unit(const CopyRectangle* chain, const CopyRectangle& b,
                                           int64_t unit, const Tile& tile) {
  b.listed ? sum_unit<From, To>(chain, b, unit, tile) : copy_unit<From, To>(chain, b, unit);
}

template <class From>
__device__ __forceinline__ void apply_from(const CopyRectangle* chain, const CopyRectangle& b,
                                           int64_t unit, const Tile& tile) {
  switch (b.dst_type) {
    case DType::kFloat32:
      return apply_unit<From, float>(chain, b, unit, tile);
    case DType::kBFloat16:
      return apply_unit<From, Bf16>(chain, b, unit, tile);
    case DType::kFloat16:
      return apply_unit<From, Fp16>(chain, b, unit, tile);
  }
}

__global__ void __launch_bounds__(kThreads, 2)
    copy_rectangles_kernel(const CopyRectangle* rectangles, int count) {
  const int64_t unit = blockIdx.x;
  const CopyRectangle* chain = rectangles + rectangle_of(rectangles, count, unit);
  const CopyRectangle b = *chain;
  DLRM_SHARED(Addend, addends, kTile);
  DLRM_SHARED(uint32_t, of_row, kMostListedRows * kWords);
  const Tile tile{addends, of_row};
  switch (b.src_type) {
    case DType::kFloat32:
      return apply_from<float>(chain, b, unit - b.first_unit, tile);
    case DType::kBFloat16:
      return apply_from<Bf16>(chain, b, unit - b.first_unit, tile);
    case DType::kFloat16:
      return apply_from<Fp16>(chain, b, unit - b.first_unit, tile);
  }
}

bool aligned(const void* data, DType type, int64_t stride) {
  return reinterpret_cast<uintptr_t>(data) % (4 * size_of(type)) == 0 && stride % 4 == 0;
}

}  // namespace

bool in_fours(const CopyShape& shape) {
  return shape.cols % 4 == 0 && aligned(shape.src, shape.src_type, shape.src_stride) &&
         aligned(shape.dst, shape.dst_type, shape.dst_stride);
}

CopyRectangle divide(const CopyShape& shape, bool fours, bool listed, int64_t* units) {
  CopyRectangle b{};
  b.src = shape.src;
  b.dst = shape.dst;
  b.src_type = shape.src_type;
  b.dst_type = shape.dst_type;
  b.src_stride = shape.src_stride;
  b.dst_stride = shape.dst_stride;
  b.rows = shape.rows;
  b.listed = listed;
  b.chain = 1;
  b.length = fours ? 4 : 1;
  b.groups = shape.cols / b.length;
  const BlockShape block = block_shape(b.groups, kThreads);
  b.shift = static_cast<int8_t>(block.shift);
  b.units_across = static_cast<int32_t>(blocks_for(b.groups, static_cast<int64_t>(block.across())));
  const int64_t down = listed ? listed_rows(block.shift)
                              : static_cast<int64_t>(block.down(kThreads)) * kRowsPerThread;
  *units = blocks_for(b.rows, down) * b.units_across;
  return b;
}

void copy_rectangles(const CopyRectangle* rectangles, int count, int64_t units,
                     cudaStream_t stream) {
  launch(copy_rectangles_kernel, {units, kThreads}, stream, rectangles, count);
}

}  // namespace dlrm::kernels
