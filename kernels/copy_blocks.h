#pragma once
// Rectangles copied, scaled, added and converted, many in one launch; see Ops::copy_blocks.
#include <cstdint>

#include <cuda_runtime.h>

#include "dlrm/core/dtype.h"

namespace dlrm::kernels {

/// One rectangle as the kernel reads it: units of `down` rows by `across` columns (in groups of
/// `length` columns) are numbered band by band from first_unit.
struct CopyRectangle {
  const void* src;
  void* dst;
  const float* scale;       ///< [rows] or null
  const int32_t* src_rows;  ///< [rows] or null
  const int32_t* dst_rows;
  int64_t src_stride, dst_stride;
  int64_t rows;
  int64_t groups;      ///< of `length` columns
  int64_t first_unit;  ///< units of the rectangles before
  int32_t units_across;
  int8_t shift;  ///< 2^shift groups side by side in a block
  int8_t length;
  DType src_type, dst_type;
  bool accumulate;
  uint8_t unused[3];  ///< no byte is left undefined: equal lists are equal bytes
  /// This one and those listed behind it that go to the same place, one after another: only their
  /// sources differ, which are of one type.
  int32_t chain;
};

/// What is copied.
struct CopyShape {
  const void* src;
  void* dst;
  DType src_type, dst_type;
  int64_t src_stride, dst_stride;
  int64_t rows, cols;
};

/// Whether the alignment of both sides allows to move columns by fours.
bool in_fours(const CopyShape& shape);
/// The rectangle with its division into units, not yet placed behind others; `units` is how many.
CopyRectangle divide(const CopyShape& shape, bool fours, int64_t* units);

/// rectangles [count] in device memory, whose chains write different places; `units` in all.
void copy_rectangles(const CopyRectangle* rectangles, int count, int64_t units,
                     cudaStream_t stream);

}  // namespace dlrm::kernels
