#include "plan/balance.h"

#include <algorithm>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace dlrm {
namespace {

TEST(Balance, AmongLoadsWithinTheSlackTheFewestBytesWin) {
  Balance balance(3, 0);
  balance.add(0, 1.0, 100);
  balance.add(1, 1.2, 10);
  balance.add(2, 9.0, 0);
  EXPECT_EQ(balance.pick(1), 0);
  balance.set_slack(0.5);
  EXPECT_EQ(balance.pick(1), 1);
}

TEST(Balance, ATakenRankIsPickedOnlyIfAllAreTaken) {
  Balance balance(2, 0);
  balance.add(0, 1, 10);
  balance.add(1, 5, 10);
  balance.take(0);
  EXPECT_EQ(balance.pick(1), 1);
  balance.take(1);
  EXPECT_EQ(balance.pick(1), 0);
  balance.set_taken({1});
  EXPECT_EQ(balance.pick(1), 0);
}

TEST(Balance, AFullRankIsPickedOnlyIfAllAreFull) {
  Balance balance(2, 100);
  balance.add(0, 1, 90);
  balance.add(1, 5, 80);
  EXPECT_EQ(balance.pick(20), 1);
  EXPECT_EQ(balance.pick(21), 1);
}

/// The rules of Balance::pick() as a walk over all ranks.
struct Walk {
  std::vector<double> loads, bytes;
  std::set<int> taken;
  double capacity, slack;
  bool overflows = false;

  std::vector<int> by_load() const {
    std::vector<int> ranks;
    for (size_t rank = 0; rank < loads.size(); ++rank) ranks.push_back(static_cast<int>(rank));
    std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) { return load(a) < load(b); });
    return ranks;
  }
  double load(int rank) const { return loads[static_cast<size_t>(rank)]; }
  double held(int rank) const { return bytes[static_cast<size_t>(rank)]; }

  int pick(double added) {
    int best = -1, fallback = -1;
    double limit = 0;
    for (const int rank : by_load()) {
      if (best >= 0 && load(rank) > limit) break;
      if (capacity > 0 && held(rank) + added > capacity) continue;
      if (fallback < 0) fallback = rank;
      if (taken.count(rank) > 0) continue;
      if (best < 0) limit = load(rank) + slack;
      if (best < 0 || held(rank) < held(best)) best = rank;
    }
    if (best >= 0) return best;
    if (fallback >= 0) return fallback;
    overflows = true;
    return static_cast<int>(std::min_element(bytes.begin(), bytes.end()) - bytes.begin());
  }
};

/// Loads and bytes are small whole numbers, so that many are equal.
TEST(Balance, PicksTheRanksThatAWalkOverAllFinds) {
  std::mt19937 random(7);
  const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
  int overflowing = 0, all_taken = 0;
  for (int round = 0; round < 300; ++round) {
    const int world = 1 + below(round % 3 == 0 ? 4 : 40);
    const double capacity = round % 2 == 0 ? 0 : 5 + below(60);
    const auto ranks = static_cast<size_t>(world);
    Walk walk{std::vector<double>(ranks),
              std::vector<double>(ranks),
              {},
              capacity,
              static_cast<double>(below(4))};
    Balance balance(world, capacity);
    balance.set_slack(walk.slack);
    for (int step = 0; step < 80; ++step) {
      if (below(10) == 0) {
        walk.taken.clear();
        while (below(4) > 0) walk.taken.insert(below(static_cast<unsigned>(world)));
        balance.set_taken({walk.taken.begin(), walk.taken.end()});
      }
      const double seconds = below(6), bytes = below(6);
      const int rank = walk.pick(bytes);
      ASSERT_EQ(balance.pick(bytes), rank) << round << ", " << step;
      all_taken += !walk.overflows && walk.taken.count(rank) > 0 ? 1 : 0;
      walk.loads[static_cast<size_t>(rank)] += seconds;
      walk.bytes[static_cast<size_t>(rank)] += bytes;
      walk.taken.insert(rank);
      balance.add(rank, seconds, bytes);
      balance.take(rank);
      std::vector<int> order = walk.by_load();
      ASSERT_EQ(balance.max_load(), walk.load(order.back()));
      order.resize((ranks + 1) / 2);
      std::sort(order.begin(), order.end());
      ASSERT_EQ(balance.lightest(static_cast<int>(order.size())), order);
    }
    overflowing += walk.overflows ? 1 : 0;
  }
  EXPECT_GT(overflowing, 20);
  EXPECT_GT(all_taken, 20);
}

}  // namespace
}  // namespace dlrm
