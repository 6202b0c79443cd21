// dst[r, c] = scale[r]·src[r, c], or dst += that, computed in fp32 and rounded once. Either side
// may have a list of row numbers, in which -1 stands for no row. A block of threads copies one unit
// of one rectangle. Its warps search the prefix sums of units for the rectangle, 32 entries at a
// time.
// Bytes per element: the element of both sides (dst twice for a sum). Bytes per row: 8 + 4 for the
// scale and the row lists. Limit: the bandwidth of a copy if rows are 128 bytes or longer.
#include "kernels/copy_blocks.h"
#include "kernels/rows.cuh"

namespace dlrm::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kRowsPerThread = 8;
constexpr int kTogether = 4;  ///< rows whose loads are in flight together

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

template <class From>
__device__ __forceinline__ void copy_from(const CopyRectangle* chain, const CopyRectangle& b,
                                          int64_t unit) {
  switch (b.dst_type) {
    case DType::kFloat32:
      return copy_unit<From, float>(chain, b, unit);
    case DType::kBFloat16:
      return copy_unit<From, Bf16>(chain, b, unit);
    case DType::kFloat16:
      return copy_unit<From, Fp16>(chain, b, unit);
  }
}

__global__ void __launch_bounds__(kThreads, 2)
    copy_rectangles_kernel(const CopyRectangle* rectangles, int count) {
  const int64_t unit = blockIdx.x;
  const CopyRectangle* chain = rectangles + rectangle_of(rectangles, count, unit);
  const CopyRectangle b = *chain;
  switch (b.src_type) {
    case DType::kFloat32:
      return copy_from<float>(chain, b, unit - b.first_unit);
    case DType::kBFloat16:
      return copy_from<Bf16>(chain, b, unit - b.first_unit);
    case DType::kFloat16:
      return copy_from<Fp16>(chain, b, unit - b.first_unit);
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

CopyRectangle divide(const CopyShape& shape, bool fours, int64_t* units) {
  CopyRectangle b{};
  b.src = shape.src;
  b.dst = shape.dst;
  b.src_type = shape.src_type;
  b.dst_type = shape.dst_type;
  b.src_stride = shape.src_stride;
  b.dst_stride = shape.dst_stride;
  b.rows = shape.rows;
  b.chain = 1;
  b.length = fours ? 4 : 1;
  b.groups = shape.cols / b.length;
  const BlockShape block = block_shape(b.groups, kThreads);
  b.shift = static_cast<int8_t>(block.shift);
  b.units_across = static_cast<int32_t>(blocks_for(b.groups, static_cast<int64_t>(block.across())));
  const int64_t down = static_cast<int64_t>(block.down(kThreads)) * kRowsPerThread;
  *units = blocks_for(b.rows, down) * b.units_across;
  return b;
}

void copy_rectangles(const CopyRectangle* rectangles, int count, int64_t units,
                     cudaStream_t stream) {
  launch(copy_rectangles_kernel, {units, kThreads}, stream, rectangles, count);
}

}  // namespace dlrm::kernels
