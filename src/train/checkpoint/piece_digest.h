#pragma once
#include <cstdint>
#include <optional>

#include "dlrm/core/crc32c.h"
#include "dlrm/core/view.h"

namespace dlrm {

/// The CRC32C of values that pass by, and the first of them that is not finite. Both are computed
/// block by block while a block is in the cache, so memory is read once.
class PieceDigest {
 public:
  void add(View<const float> values);
  const Crc32c& crc() const { return crc_; }
  int64_t bytes() const { return count_ * static_cast<int64_t>(sizeof(float)); }
  /// The number of the first value that is NaN or infinite.
  std::optional<int64_t> not_finite() const { return not_finite_; }

 private:
  Crc32c crc_;
  int64_t count_ = 0;
  std::optional<int64_t> not_finite_;
};

}  // namespace dlrm
