#include "train/reports/loss_watch.h"

#include <gtest/gtest.h>

namespace dlrm {
namespace {

/// The number of the step, from 1, that a rise is found at; 0 for none.
template <class Loss>
int found_at(const Loss& loss, int64_t samples, int steps) {
  LossWatch watch;
  int found = 0;
  for (int step = 1; step <= steps; ++step) {
    if (!watch.add(loss(step), samples)) continue;
    EXPECT_EQ(found, 0) << "a second rise";
    found = step;
  }
  return found;
}

TEST(LossWatch, FindsALossThatRisesOnce) {
  const auto rises = [](int step) { return step <= 40 ? 0.5 : 0.7; };
  EXPECT_EQ(found_at(rises, 4096, 200), 48);
  const auto explodes = [](int step) { return step == 1 ? 0.7 : 3.0; };
  EXPECT_EQ(found_at(explodes, 65536, 50), 8);
  EXPECT_EQ(found_at(explodes, 1024, 50), 8);
  EXPECT_EQ(found_at(explodes, 1023, 50), 0);  // too few to count
}

TEST(LossWatch, ComparesWithTheLowestMean) {
  const auto creeps = [](int step) { return step <= 8 ? 0.69 : step <= 16 ? 0.4 : 0.55; };
  LossWatch watch;
  for (int step = 1; step <= 24; ++step) {
    const auto rise = watch.add(creeps(step), 1024);
    ASSERT_EQ(rise.has_value(), step == 24);
    if (!rise) continue;
    EXPECT_NEAR(rise->from, 0.4, 1e-12);
    EXPECT_NEAR(rise->to, 0.55, 1e-12);
  }
}

TEST(LossWatch, FindsARiseInSmallSteps) {
  const auto creeps = [](int step) { return step <= 8 ? 0.4 : step <= 16 ? 0.48 : 0.55; };
  EXPECT_EQ(found_at(creeps, 8192, 100), 24);
}

TEST(LossWatch, AcceptsWhatFallsAndSmallRises) {
  EXPECT_EQ(found_at([](int step) { return 0.7 / step; }, 8192, 100), 0);
  EXPECT_EQ(found_at([](int step) { return step <= 8 ? 0.5 : 0.62; }, 8192, 100), 0);
  EXPECT_EQ(found_at([](int step) { return step <= 8 ? 0.5 : 0.625; }, 8192, 100), 0);
  EXPECT_EQ(found_at([](int step) { return step <= 8 ? 0.5 : 0.6251; }, 8192, 100), 16);
}

TEST(LossWatch, TakesNoFewSamplesForAMean) {
  // Single samples have losses between 0 and 2.
  const auto noise = [](int step) { return step % 7 == 0 ? 2.0 : 0.1; };
  EXPECT_EQ(found_at(noise, 1, 50000), 0);
  EXPECT_EQ(found_at([](int step) { return step <= 8000 ? 0.1 : 1.0; }, 1, 30000), 16384);
}

}  // namespace
}  // namespace dlrm
