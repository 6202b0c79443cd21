#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dlrm/core/partition.h"

namespace dlrm {

/// Rows of which several shards hold parts, in records. A pass over them takes all parts of a
/// record at once.
class SharedRows {
 public:
  virtual ~SharedRows() = default;
  /// Begins a pass. Until it ends, nothing else may use the rows.
  virtual void begin() = 0;
  /// Goes to the next rows in increasing order, a bounded number. Returns them, counted from the
  /// first row of the shards. Empty after the last: the pass has ended.
  virtual Range next() = 0;
  /// Copies part `part` of these rows to out [rows, columns].
  virtual void read(size_t part, float* out) = 0;
  /// Like read(), in the other direction. The rows change by the next call of next().
  virtual void write(size_t part, const float* in) = 0;
};

/// One of the parts.
struct SharedPart {
  SharedRows* rows = nullptr;  ///< null: nothing is shared
  size_t part = 0;
};

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
  /// A pass over shared rows is faster than read() and write() of each shard.
  SharedPart shared = {};
  bool is_state = false;  ///< of an optimizer: predictions need no more than the others
};

}  // namespace dlrm
