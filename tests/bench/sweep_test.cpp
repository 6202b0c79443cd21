#include <gtest/gtest.h>

#include "bench/batch_sweep.h"

namespace dlrm::bench {
namespace {

TEST(Spread, IsMeanDeviationAndBoundsOfASample) {
  const Spread none = spread_of({});
  EXPECT_EQ(none.mean, 0);
  EXPECT_EQ(none.deviation, 0);
  const Spread one = spread_of({3});
  EXPECT_EQ(one.mean, 3);
  EXPECT_EQ(one.deviation, 0);
  EXPECT_EQ(one.least, 3);
  EXPECT_EQ(one.most, 3);
  const Spread four = spread_of({5, 2, 4, 9});
  EXPECT_DOUBLE_EQ(four.mean, 5);
  EXPECT_DOUBLE_EQ(four.deviation, std::sqrt(26.0 / 3));
  EXPECT_EQ(four.least, 2);
  EXPECT_EQ(four.most, 9);
}

TEST(MovingShare, IsThatOfStagesThatMoveData) {
  for (const char* stage : {"data", "route", "lookup", "return", "allreduce"}) {
    EXPECT_TRUE(moves_data(stage)) << stage;
  }
  for (const char* stage :
       {"bottom", "interact", "top", "loss", "backward", "update", "device", ""}) {
    EXPECT_FALSE(moves_data(stage)) << stage;
  }
  SweepPoint point;
  EXPECT_EQ(point.moving_share(), 0);
  point.stages_ms = {{"data", 1}, {"lookup", 0.5}, {"top", 4}, {"update", 0.5}};
  EXPECT_EQ(point.moving_share(), 0.25);
  point.asynchronous = true;
  EXPECT_FALSE(point.moving_share());
}

}  // namespace
}  // namespace dlrm::bench
