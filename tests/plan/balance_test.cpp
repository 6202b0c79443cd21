#include "plan/balance.h"

#include <gtest/gtest.h>

namespace dlrm {
namespace {

TEST(Balance, AmongLoadsWithinTheSlackTheFewestBytesWin) {
  Balance balance(3, 0);
  balance.add(0, 1.0, 100);
  balance.add(1, 1.2, 10);
  balance.add(2, 9.0, 0);
  EXPECT_EQ(balance.pick(1, {}), 0);
  balance.set_slack(0.5);
  EXPECT_EQ(balance.pick(1, {}), 1);
}

TEST(Balance, ATakenRankIsPickedOnlyIfAllAreTaken) {
  Balance balance(2, 0);
  balance.add(0, 1, 10);
  balance.add(1, 5, 10);
  EXPECT_EQ(balance.pick(1, {0}), 1);
  EXPECT_EQ(balance.pick(1, {0, 1}), 0);
}

TEST(Balance, AFullRankIsPickedOnlyIfAllAreFull) {
  Balance balance(2, 100);
  balance.add(0, 1, 90);
  balance.add(1, 5, 80);
  EXPECT_EQ(balance.pick(20, {}), 1);
  EXPECT_FALSE(balance.overflows());
  EXPECT_EQ(balance.pick(21, {}), 1);
  EXPECT_TRUE(balance.overflows());
}

}  // namespace
}  // namespace dlrm
