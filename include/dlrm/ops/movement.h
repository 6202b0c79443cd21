#pragma once
#include <algorithm>
#include <cstdint>

#include "dlrm/core/view.h"
#include "dlrm/ops/operation.h"

namespace dlrm {

/// A rectangle to copy. Row r of a side is its row r, or the row src_rows[r] or dst_rows[r]. A list
/// may end in entries of -1. Their rows are not copied, so a list of fixed length serves any number
/// of rows that only the device knows.
struct BlockCopy {
  const void* src = nullptr;
  void* dst = nullptr;
  DType src_type = DType::kFloat32;
  DType dst_type = DType::kFloat32;
  int64_t src_stride = 0;  ///< elements from row to row
  int64_t dst_stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  const float* scale = nullptr;       ///< [rows], or null
  const int32_t* src_rows = nullptr;  ///< [rows] rows of src, or null
  const int32_t* dst_rows = nullptr;  ///< [rows] distinct rows of dst, ascending, or null
  int64_t dst_height = 0;             ///< dst_rows are below it, or 0 if that is not known
  bool accumulate = false;
  bool disjoint = false;  ///< writes no place that another such block of the call writes
};

/// The rows that are copied, without those of entries of -1. Reads the lists.
inline int64_t copied_rows(const BlockCopy& b) {
  int64_t rows = b.rows;
  for (const int32_t* list : {b.src_rows, b.dst_rows}) {
    if (!list) continue;
    rows = std::partition_point(list, list + rows, [](int32_t row) { return row >= 0; }) - list;
  }
  return rows;
}

/// For each block: dst[r, c] = scale[r]·src[r, c], or += with `accumulate`. Types are converted
/// through fp32 and rounded once. Blocks that write the same place are applied in their order.
struct CopyBlocks {
  View<const BlockCopy> blocks;

  static constexpr const char* kName = "copy_blocks";
  template <class V>
  void operands(V& v) {
    v.inout("blocks", blocks);
  }
};

/// y = x, converted from and to any type.
struct Convert {
  Matrix x, y;  ///< [b, n]

  static constexpr const char* kName = "convert";
  template <class V>
  void operands(V& v) {
    v.in("x", x), v.out("y", y);
  }
};

/// y += x.
struct Add {
  Matrix x, y;  ///< [b, n]

  static constexpr const char* kName = "add";
  template <class V>
  void operands(V& v) {
    v.in("x", x), v.inout("y", y);
  }
};

/// y[r, 0] += Σ_c x[r, c], added in the order of the columns and rounded once.
struct AddRowSums {
  Matrix x;  ///< [b, n]
  Matrix y;  ///< [b, 1]

  static constexpr const char* kName = "add_row_sums";
  template <class V>
  void operands(V& v) {
    v.in("x", x), v.inout("y", y, {.terms = x.cols + 1, .initial = 0x1p-23});
  }
};

/// y[r, c] = x[r, 0], converted.
struct RepeatColumn {
  Matrix x;  ///< [b, 1]
  Matrix y;  ///< [b, n]

  static constexpr const char* kName = "repeat_column";
  template <class V>
  void operands(V& v) {
    v.in("x", x), v.out("y", y);
  }
};

/// Sets every byte to 0.
struct FillZero {
  View<char> bytes;

  static constexpr const char* kName = "fill_zero";
  template <class V>
  void operands(V& v) {
    v.out("bytes", bytes);
  }
};

/// bad[0] = 1 if any element of x is NaN or infinite. Otherwise bad is unchanged.
struct FindNonFinite {
  Matrix x;
  View<float> bad;  ///< [1]

  static constexpr const char* kName = "find_non_finite";
  template <class V>
  void operands(V& v) {
    v.in("x", x), v.inout("bad", bad);
  }
};

#define DLRM_MOVEMENT_OPERATIONS(X) \
  X(CopyBlocks)                     \
  X(Convert)                        \
  X(Add)                            \
  X(AddRowSums)                     \
  X(RepeatColumn)                   \
  X(FillZero)                       \
  X(FindNonFinite)

}  // namespace dlrm
