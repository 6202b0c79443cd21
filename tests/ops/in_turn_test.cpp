#include "ops/cpu/in_turn.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace dlrm::cpu {
namespace {

struct Added {
  char item;
  int64_t begin, end, elements;
};

/// What is fetched and worked on, in order.
std::string order_of(const std::vector<Added>& all) {
  std::string order;
  const auto note = [&](const char* what) {
    return [&order, what](char item, int64_t begin, int64_t end) {
      order += fmt::format("{} {}{}-{}, ", what, item, begin, end);
    };
  };
  auto turn = in_turn<char>(note("fetch"), note("do"));
  for (const Added& a : all) turn.add(a.item, a.begin, a.end, a.elements);
  turn.finish();
  order += "end";
  turn.finish();
  return order;
}

TEST(InTurn, ARangeIsFetchedBeforeTheWorkOnAShortOne) {
  EXPECT_EQ(order_of({}), "end");
  EXPECT_EQ(order_of({{'a', 1, 3, 9}}), "fetch a1-3, do a1-3, end");
  EXPECT_EQ(order_of({{'a', 0, 5, 65536}, {'b', 2, 4, 7}, {'c', 6, 8, 5}}),
            "fetch a0-5, fetch b2-4, do a0-5, fetch c6-8, do b2-4, do c6-8, end");
}

TEST(InTurn, ALongRangeIsDoneBeforeTheNextIsFetched) {
  EXPECT_EQ(order_of({{'a', 0, 5, 65537}, {'b', 2, 4, 65536}, {'c', 6, 8, 1 << 20}}),
            "fetch a0-5, do a0-5, fetch b2-4, fetch c6-8, do b2-4, do c6-8, end");
  EXPECT_EQ(order_of({{'a', 0, 5, 3}, {'b', 2, 4, 1 << 20}, {'c', 6, 8, 4}}),
            "fetch a0-5, fetch b2-4, do a0-5, do b2-4, fetch c6-8, do c6-8, end");
}

TEST(FirstAt, IsTheFirstItemWithSoMuchWorkBeforeIt) {
  const std::vector<int64_t> before = {3, 3, 8, 9, 9};
  for (size_t size = 0; size <= before.size(); ++size) {
    for (int64_t work = 2; work < 11; ++work) {
      int64_t want = 0;
      while (want < static_cast<int64_t>(size) && before[static_cast<size_t>(want)] < work) ++want;
      std::vector<int64_t> asked;
      const int64_t got = first_at(static_cast<int64_t>(size), work, [&](int64_t i) {
        asked.push_back(i);
        return before.at(static_cast<size_t>(i));
      });
      EXPECT_EQ(got, want) << work << " of " << size;
      EXPECT_LE(asked.size(), 3u);
      for (const int64_t i : asked) EXPECT_LT(i, static_cast<int64_t>(size));
    }
  }
}

}  // namespace
}  // namespace dlrm::cpu
