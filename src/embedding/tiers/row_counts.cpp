#include "row_counts.h"

#include <algorithm>

namespace dlrm {
namespace {

constexpr uint16_t kMost = 0x7fff;
constexpr uint16_t kInBatch = 0x8000;  // the batch that is being added uses the row

}  // namespace

int64_t RowCounts::add(const std::vector<PlacedIds>& batch, int cache) {
  const auto each_count = [&](const auto& visit) {
    for (const PlacedIds& group : batch) {
      if (group.cache != cache) continue;
      each_id(group, [&](int64_t row) { visit(counts_[static_cast<size_t>(row)]); });
    }
  };
  int64_t rows = 0;
  each_count([&](uint16_t& count) {
    if (count & kInBatch) return;
    ++rows;
    count = static_cast<uint16_t>(std::min<int>(count + 1, kMost) | kInBatch);
  });
  each_count([](uint16_t& count) { count &= kMost; });
  largest_batch_ = std::max(largest_batch_, rows);
  return rows;
}

std::vector<bool> RowCounts::hottest(int64_t slots) const {
  std::vector<int64_t> rows_with(kMost + 1);
  for (const uint16_t count : counts_) ++rows_with[count];
  int64_t left = std::max<int64_t>(slots - largest_batch_, 0);
  for (size_t count = kMost; count > 0; --count) {
    rows_with[count] = std::min(rows_with[count], left);
    left -= rows_with[count];
  }
  std::vector<bool> hot(counts_.size());
  for (size_t row = 0; row < counts_.size(); ++row) {
    int64_t& room = rows_with[counts_[row]];
    if (counts_[row] > 0 && room > 0) {
      hot[row] = true;
      --room;
    }
  }
  return hot;
}

}  // namespace dlrm
