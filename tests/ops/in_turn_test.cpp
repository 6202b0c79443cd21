#include "ops/cpu/in_turn.h"

#include <vector>

#include <gtest/gtest.h>

namespace dlrm::cpu {
namespace {

TEST(InTurn, EachRangeIsFetchedOnceAndThenProcessedOnceInOrder) {
  const std::vector<int64_t> items = {0, 1, 2, 3, 4};
  for (const int64_t elements : {1, 65536, 65537, 1 << 20}) {
    std::vector<int64_t> fetched, done;
    auto turn = in_turn<int64_t>([&](int64_t item, int64_t, int64_t) { fetched.push_back(item); },
                                 [&](int64_t item, int64_t begin, int64_t end) {
                                   EXPECT_GT(fetched.size(), done.size());
                                   EXPECT_EQ(end, begin + item);
                                   done.push_back(item);
                                 });
    for (const int64_t& i : items) turn.add(i, 2, 2 + i, i % 2 == 0 ? 1 : elements);
    turn.finish();
    turn.finish();
    EXPECT_EQ(fetched, items);
    EXPECT_EQ(done, items);
  }
}

TEST(FirstAt, IsTheFirstItemWithSoMuchWorkBeforeIt) {
  const std::vector<int64_t> before = {3, 3, 8, 9, 9};
  for (size_t size = 0; size <= before.size(); ++size) {
    for (int64_t work = 2; work < 11; ++work) {
      int64_t want = 0;
      while (want < static_cast<int64_t>(size) && before[static_cast<size_t>(want)] < work) ++want;
      const int64_t got = first_at(static_cast<int64_t>(size), work, [&](int64_t i) {
        EXPECT_LT(i, static_cast<int64_t>(size));
        return before.at(static_cast<size_t>(i));
      });
      EXPECT_EQ(got, want) << work << " of " << size;
    }
  }
}

}  // namespace
}  // namespace dlrm::cpu
