#include "embedding/tiers/row_order.h"

#include <gmock/gmock.h>

namespace dlrm::testing {
namespace {

using ::testing::ElementsAre;

struct Lists {
  explicit Lists(size_t ids) : by_row(ids, -1), by_slot(ids, -1) {}
  std::vector<int32_t> by_row, by_slot;
};

Lists lists_of(const std::vector<int64_t>& rows, const std::vector<int64_t>& cuts,
               const std::vector<int64_t>& first_ids) {
  Lists lists(static_cast<size_t>(first_ids.back()));
  list_order(rows, {0, lists.by_row, lists.by_slot, cuts, first_ids});
  return lists;
}

TEST(ListOrder, OfOneIntervalIsAPermutation) {
  const Lists lists = lists_of({40, 10, 30, 20}, {}, {0, 6});
  EXPECT_THAT(lists.by_row, ElementsAre(1, 3, 2, 0, 4, 5));
  EXPECT_THAT(lists.by_slot, ElementsAre(3, 0, 2, 1, 4, 5));
}

// Rows 10, 20 of three ids, none of two, 30 and 40 of two.
TEST(ListOrder, EachIntervalBeginsBehindTheIdsOfThoseBefore) {
  const Lists lists = lists_of({40, 10, 30, 20}, {25, 28}, {0, 3, 5, 7});
  EXPECT_THAT(lists.by_row, ElementsAre(1, 3, 2, 3, 4, 2, 0));
  EXPECT_THAT(lists.by_slot, ElementsAre(6, 0, 5, 1, 4, 5, 6));
}

TEST(ListOrder, ARowAtACutBelongsToTheIntervalThatBeginsThere) {
  const Lists lists = lists_of({24, 25}, {25}, {0, 2, 4});
  EXPECT_THAT(lists.by_row, ElementsAre(0, 1, 1, 3));
  EXPECT_THAT(lists.by_slot, ElementsAre(0, 2, 2, 3));
}

TEST(ListOrder, OfNoRowsHasOnlyPositions) {
  const Lists lists = lists_of({}, {5}, {0, 0, 0});
  EXPECT_TRUE(lists.by_row.empty());
}

}  // namespace
}  // namespace dlrm::testing
