#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dlrm/core/partition.h"

namespace dlrm {

/// A rectangle of a tensor on this rank, for saving and loading.
struct TensorShard {
  std::string path;            ///< "/tables/C1/weight", "/mlp/top/0/bias", ...
  std::vector<int64_t> shape;  ///< of the whole tensor: one or two dimensions
  Range rows;                  ///< of the rectangle
  Range columns;               ///< [0, 1) for a one-dimensional tensor
  bool saves = true;           ///< false if another rank saves the same part; loading ignores this
  /// Copies rows [first, first + count) of the part (0 = rows.begin) to out [count,
  /// columns.size()].
  std::function<void(int64_t first, int64_t count, float* out)> read;
  std::function<void(int64_t first, int64_t count, const float* in)> write;
};

}  // namespace dlrm
