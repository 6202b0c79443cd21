#include "embedding/list_capacities.h"

#include <gtest/gtest.h>

namespace dlrm {
namespace {

TEST(ListCapacities, AreTheCountsUntilTheyAreStarted) {
  ListCapacities capacities(2);
  capacities.begin(10);
  EXPECT_EQ(capacities.of(0, 7), 7);
  EXPECT_EQ(capacities.of(0, 3), 3);
  EXPECT_FALSE(capacities.started());
}

TEST(ListCapacities, GrowOnlyWhereACountDoesNotFit) {
  ListCapacities capacities(2);
  capacities.start();
  capacities.begin(1000);
  EXPECT_EQ(capacities.of(0, 0), 4);
  EXPECT_EQ(capacities.of(0, 100), 164);  // six roots and four
  EXPECT_EQ(capacities.of(1, 1), 11);
  for (const int64_t count : {0, 50, 164}) EXPECT_EQ(capacities.of(0, count), 164);
  EXPECT_EQ(capacities.of(0, 165), 165 + 4 + 2 * 78);  // the slack doubles each time
  EXPECT_EQ(capacities.of(0, 330), 330 + 4 + 4 * 109);
  EXPECT_EQ(capacities.of(1, 11), 11);
}

TEST(ListCapacities, DoNotExceedTheMostOfAList) {
  ListCapacities capacities(2);
  capacities.start();
  capacities.begin(40);
  EXPECT_EQ(capacities.of(0, 30, 40), 40);
  EXPECT_EQ(capacities.of(0, 40, 40), 40);
  EXPECT_EQ(capacities.of(1, 0, 0), 0);
}

TEST(ListCapacities, BatchesOfOtherSizesHaveTheirOwn) {
  ListCapacities capacities(1);
  capacities.start();
  capacities.begin(1000);
  EXPECT_EQ(capacities.of(0, 100), 164);
  capacities.begin(10);
  EXPECT_EQ(capacities.of(0, 1), 11);
  capacities.begin(1000);
  EXPECT_EQ(capacities.of(0, 1), 164);
}

TEST(ListCapacities, OfTheSizesThatWereUsedLastAreKept) {
  ListCapacities capacities(1);
  capacities.start();
  for (int64_t samples = 1; samples <= 8; ++samples) {
    capacities.begin(samples);
    capacities.of(0, 100);
  }
  capacities.begin(1);
  EXPECT_EQ(capacities.of(0, 1), 164);
  capacities.begin(9);  // replaces those of size 2
  EXPECT_EQ(capacities.of(0, 1), 11);
  capacities.begin(2);
  EXPECT_EQ(capacities.of(0, 1), 11);
  capacities.begin(1);
  EXPECT_EQ(capacities.of(0, 1), 164);
}

}  // namespace
}  // namespace dlrm
