#pragma once
// Copies, scales, adds and converts many rectangles in one launch. See Ops::copy_blocks.
#include <cstdint>

#include <cuda_runtime.h>

#include "dlrm/core/dtype.h"

namespace dlrm::kernels {

/// One rectangle in the kernel's format. A unit is `down` rows by `across` columns. Columns are in
/// groups of `length`. Units are numbered band by band from first_unit.
struct CopyRectangle {
  const void* src;
  void* dst;
  const float* scale;       ///< [rows] or null
  const int32_t* src_rows;  ///< [rows] or null; at the end -1 for rows that are not copied
  const int32_t* dst_rows;
  int64_t src_stride, dst_stride;
  int64_t rows;
  int64_t groups;      ///< of `length` columns
  int64_t first_unit;  ///< units of the preceding rectangles
  int32_t units_across;
  int8_t shift;  ///< a block covers 2^shift groups across
  int8_t length;
  DType src_type, dst_type;
  bool accumulate;
  bool listed;        ///< the chain that starts here has lists of dst rows
  uint8_t unused[2];  ///< zeros: rectangles are compared by their bytes
  /// Length of the chain that starts here: this rectangle and those that directly follow it with
  /// the same columns of the destination. Their sources have one type and no lists. The first one
  /// has no list of dst rows. Those that have one, and those that follow them, accumulate.
  int32_t chain;
};
/// Plans count these bytes (src/plan/cost.cpp).
static_assert(sizeof(CopyRectangle) == 96);

/// The arguments of one copy.
struct CopyShape {
  const void* src;
  void* dst;
  DType src_type, dst_type;
  int64_t src_stride, dst_stride;
  int64_t rows, cols;
};

/// True if both sides are aligned for groups of four columns.
bool in_fours(const CopyShape& shape);
/// Divides the first rectangle of a chain, which has lists of dst rows if `listed`, into units and
/// sets `*units` to their number. Does not set first_unit.
CopyRectangle divide(const CopyShape& shape, bool fours, bool listed, int64_t* units);

/// Copies rectangles [count] in device memory, with `units` in total. Their chains write different
/// places.
void copy_rectangles(const CopyRectangle* rectangles, int count, int64_t units,
                     cudaStream_t stream);

}  // namespace dlrm::kernels
