#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/batch_sweep.h"
#include "error_of.h"

namespace dlrm::bench {
namespace {

using ::testing::ElementsAre;

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

TEST(Batches, AreParsedAsRangesAndLists) {
  EXPECT_THAT(parse_batches("8..64"), ElementsAre(8, 16, 32, 64));
  EXPECT_THAT(parse_batches("8..63"), ElementsAre(8, 16, 32));
  EXPECT_THAT(parse_batches("7..7"), ElementsAre(7));
  EXPECT_THAT(parse_batches("300,8,32"), ElementsAre(300, 8, 32));
  EXPECT_THAT(parse_batches("1"), ElementsAre(1));
  EXPECT_THAT(parse_batches("16777216"), ElementsAre(1 << 24));
}

std::string error_of(const std::string& batches) {
  return usage_error_of([&] { parse_batches(batches); });
}

TEST(Batches, OfOtherFormsAreRefused) {
  for (const char* text : {"", "0", "-8", "16777217", "8,", ",8", "8,,16", "8..", "..8", "8...16",
                           "x", "8x", " 8", "8 ", "1e3", "8.5", "8..x", "0..8", "8,0"}) {
    EXPECT_EQ(error_of(text),
              fmt::format("--batches {}: expected 8..1024 (doubling) or 8,32,128, sizes from 1 to "
                          "16777216",
                          text));
  }
  EXPECT_EQ(error_of("16..8"), "--batches 16..8: the first is above the last");
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
