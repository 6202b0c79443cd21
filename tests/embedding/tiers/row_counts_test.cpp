#include "embedding/tiers/row_counts.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace dlrm::testing {
namespace {

PlacedIds group_of(std::vector<int64_t>& ids, int cache = 0) {
  return {cache, ids.data(), std::ssize(ids), false};
}

TEST(RowCounts, TheHottestRowsAreInTheMostBatchesAndLeaveRoomForTheLargestOne) {
  constexpr int64_t kRows = 50;
  std::mt19937 random(4);
  RowCounts counts(kRows);
  std::vector<int> batches_of(kRows);
  size_t largest = 0;
  for (int batch = 0; batch < 40; ++batch) {
    std::vector<int64_t> ids(random() % 15);
    for (int64_t& id : ids) id = static_cast<int64_t>(random() % (1 + random() % (kRows - 5)));
    const std::set<int64_t> rows(ids.begin(), ids.end());
    for (const int64_t row : rows) ++batches_of[static_cast<size_t>(row)];
    largest = std::max(largest, rows.size());
    EXPECT_EQ(counts.add({group_of(ids)}, 0), std::ssize(rows));
  }
  std::vector<int> falling = batches_of;
  std::sort(falling.rbegin(), falling.rend());
  const int64_t used = std::count_if(falling.begin(), falling.end(), [](int n) { return n > 0; });
  for (int64_t slots = 1; slots <= kRows; ++slots) {
    const std::vector<bool> hot = counts.hottest(slots);
    const auto room = std::clamp<int64_t>(slots - static_cast<int64_t>(largest), 0, used);
    ASSERT_EQ(std::count(hot.begin(), hot.end(), true), room) << slots << " slots";
    int sum = 0;
    for (size_t row = 0; row < hot.size(); ++row) sum += hot[row] ? batches_of[row] : 0;
    EXPECT_EQ(sum, std::accumulate(falling.begin(), falling.begin() + room, 0)) << slots;
  }
}

TEST(RowCounts, ARowOfVeryManyBatchesStaysTheHottest) {
  RowCounts counts(3);
  std::vector<int64_t> one{1}, two{2};
  for (int batch = 0; batch < 65536; ++batch) counts.add({group_of(one)}, 0);
  counts.add({group_of(two)}, 0);
  EXPECT_EQ(counts.hottest(2), std::vector<bool>({false, true, false}));
}

}  // namespace
}  // namespace dlrm::testing
