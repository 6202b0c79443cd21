#include "embedding/routing/list_capacities.h"

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
  const int64_t first = capacities.of(0, 100), other = capacities.of(1, 1);
  EXPECT_GT(first, 100);
  EXPECT_GT(other, 1);
  for (const int64_t count : {int64_t{0}, int64_t{50}, first}) {
    EXPECT_EQ(capacities.of(0, count), first);
  }
  EXPECT_GT(capacities.of(0, first + 1), first + 1);
  EXPECT_EQ(capacities.of(1, other), other);
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
  const int64_t large = capacities.of(0, 100);
  capacities.begin(10);
  EXPECT_LT(capacities.of(0, 1), large);
  capacities.begin(1000);
  EXPECT_EQ(capacities.of(0, 1), large);
}

}  // namespace
}  // namespace dlrm
