#include "dlrm/train/step_times.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/core/random.h"

namespace dlrm {
namespace {

TEST(StepTimes, NoStepsGiveZeros) {
  const StepTimes times;
  EXPECT_EQ(0, times.mean_ms());
  EXPECT_EQ(0, times.percentile_ms(0.5));
}

TEST(StepTimes, PercentilesAreThoseOfASortWithinAThirdOfAPercent) {
  StepTimes times;
  std::vector<double> all;
  double sum = 0;
  for (uint32_t i = 0; i < 5000; ++i) {
    const double seconds = 1e-4 * std::exp(4.0 * uniform01(philox(1, {i, 0, 0, 0})[0]));
    all.push_back(seconds);
    sum += seconds;
    times.add(seconds);
  }
  std::sort(all.begin(), all.end());
  EXPECT_NEAR(1e3 * all[2499], times.percentile_ms(0.5), 0.003 * 1e3 * all[2499]);
  EXPECT_NEAR(1e3 * all[4949], times.percentile_ms(0.99), 0.003 * 1e3 * all[4949]);
  EXPECT_NEAR(1e3 * sum / 5000, times.mean_ms(), 1e-9);
  EXPECT_EQ(5000, times.count());
}

TEST(StepTimes, AShareOfNoStepIsThatOfTheShortest) {
  StepTimes times;
  times.add(0.25);
  times.add(0.5);
  EXPECT_NEAR(times.percentile_ms(0), 250, 1);
  EXPECT_NEAR(times.percentile_ms(0.5), 250, 1);
  EXPECT_NEAR(times.percentile_ms(0.51), 500, 2);
}

TEST(StepTimes, TheShortestAndTheLongestTimesAreAccepted) {
  StepTimes times;
  times.add(0);
  times.add(1e9);
  EXPECT_NEAR(1e-3, times.percentile_ms(0.5), 1e-5);
  EXPECT_GT(times.percentile_ms(1), 1e8);
}

}  // namespace
}  // namespace dlrm
