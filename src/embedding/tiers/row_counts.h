#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "placed_ids.h"

namespace dlrm {

/// How many batches use each row of a slice, up to 32767. Takes 2 bytes a row.
class RowCounts {
 public:
  explicit RowCounts(int64_t rows) : counts_(static_cast<size_t>(rows)) {}

  /// Counts the rows of the groups of `cache` once each. Returns their number.
  int64_t add(const std::vector<PlacedIds>& batch, int cache);
  /// [rows] true for the rows that most batches use. They leave as many of the slots to others as
  /// the largest batch has rows.
  std::vector<bool> hottest(int64_t slots) const;

 private:
  std::vector<uint16_t> counts_;
  int64_t largest_batch_ = 0;  ///< rows
};

}  // namespace dlrm
