#include "comm/world/node_layout.h"

#include <vector>

#include <gtest/gtest.h>

#include "comm/collectives/combine.h"

namespace dlrm::comm {
namespace {

NodeLayout layout_of(const std::vector<int>& names, int rank) {
  return NodeLayout(View<const int>(names), rank);
}

std::vector<int> list(View<const int> ranks) { return {ranks.begin(), ranks.end()}; }

TEST(NodeLayout, NodesAreNumberedByTheirLowestRanks) {
  const NodeLayout layout = layout_of({7, 7, 3, 3, 3, 5}, 4);
  EXPECT_EQ(layout.nodes(), 3);
  EXPECT_EQ(layout.node_of(1), 0);
  EXPECT_EQ(layout.node_of(5), 2);
  EXPECT_EQ(layout.node(), 1);
  EXPECT_EQ(layout.place(), 2);
  EXPECT_EQ(list(layout.own_ranks()), (std::vector<int>{2, 3, 4}));
  EXPECT_EQ(list(layout.ranks_of(2)), (std::vector<int>{5}));
  EXPECT_EQ(layout.smallest(), 1);
  EXPECT_EQ(layout.largest(), 3);
  EXPECT_TRUE(layout.is_consecutive());
  EXPECT_EQ(layout_of({5, 7, 7}, 0).smallest(), 1);
  EXPECT_EQ(layout_of({7, 7, 5}, 0).largest(), 2);
}

TEST(NodeLayout, RanksOfANodeNeedNotFollowOneAnother) {
  const NodeLayout layout = layout_of({9, 4, 9, 4}, 3);
  EXPECT_FALSE(layout.is_consecutive());
  EXPECT_EQ(list(layout.ranks_of(0)), (std::vector<int>{0, 2}));
  EXPECT_EQ(list(layout.own_ranks()), (std::vector<int>{1, 3}));
  EXPECT_EQ(layout.place(), 1);
}

TEST(Combine, ContinuesTheSumOfLowerRanks) {
  constexpr int64_t kCount = 2051;
  std::vector<float> before(kCount), first(kCount), second(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    before[i] = 1e8f;
    first[i] = 3.0f + static_cast<float>(i);
    second[i] = -1e8f;
  }
  const float* parts[] = {first.data(), second.data()};
  combine_in_rank_order<Sum, float, float>(View<const float* const>(parts), {0, kCount},
                                           before.data(), before.data());
  for (size_t i = 0; i < kCount; ++i) EXPECT_EQ(before[i], (1e8f + first[i]) - 1e8f);
}

}  // namespace
}  // namespace dlrm::comm
