#include <cmath>

#include "dlrm/core/random.h"

#include "fixture.h"

namespace dlrm {
namespace {

constexpr uint64_t kKey = 0x123456789abcdefull;

/// Whether an element is dropped, as include/dlrm/ops/dropout.h says.
bool dropped(double rate, uint64_t sample, int64_t unit, uint32_t step) {
  const auto words =
      philox(kKey, {static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32),
                    static_cast<uint32_t>(unit / 4), step});
  return words[static_cast<size_t>(unit % 4)] < rate * 4294967296.0;
}

using DropoutOf = EveryExecution;

TEST_P(DropoutOf, EachElementDependsOnItsSampleUnitAndStep) {
  for (const DType type : kTypes) {
    for (const int64_t cols : {1, 3, 4, 8, 15, 64, 130}) {
      for (const int64_t spare : {0, 3, 4}) {
        for (const double rate : {0.1, 0.75}) {
          Cells x = Cells::random(6, cols, 2, type, spare), y(6, cols, type, spare);
          const DropoutPlace place{(int64_t{1} << 32) - 2, 77};
          ops->dropout(kKey, rate, place, x.matrix(), y.matrix());
          for (int64_t r = 0; r < 6; ++r) {
            for (int64_t c = 0; c < cols; ++c) {
              const auto sample = static_cast<uint64_t>(place.first_sample + r);
              const float kept = x.at(r, c) * static_cast<float>(1 / (1 - rate));
              const float want =
                  type == DType::kFloat32 ? kept : static_cast<float>(BFloat16(kept));
              EXPECT_EQ(y.at(r, c), dropped(rate, sample, c, 77) ? 0 : want) << r << " " << c;
            }
          }
          EXPECT_TRUE(y.margins_untouched());
        }
      }
    }
  }
}

TEST_P(DropoutOf, TheRateIsTheShareThatIsDroppedAndTheMeanStays) {
  constexpr int64_t kRows = 400, kCols = 250;
  for (const double rate : {0.0, 0.2, 0.9}) {
    Cells x(kRows, kCols), y(kRows, kCols);
    for (int64_t i = 0; i < kRows * kCols; ++i) x.set(i / kCols, i % kCols, 1);
    ops->dropout(kKey, rate, {}, x.matrix(), y.matrix());
    double zeros = 0, sum = 0;
    for (int64_t i = 0; i < kRows * kCols; ++i) {
      zeros += y.at(i / kCols, i % kCols) == 0;
      sum += y.at(i / kCols, i % kCols);
    }
    // Five deviations of 100,000 draws.
    const double deviation = std::sqrt(rate * (1 - rate) / (kRows * kCols));
    EXPECT_NEAR(zeros / (kRows * kCols), rate, 5 * deviation);
    EXPECT_NEAR(sum / (kRows * kCols), 1, 5 * deviation / (1 - rate));
  }
}

TEST_P(DropoutOf, PartsOfABatchAreThoseOfTheWhole) {
  Cells x = Cells::random(10, 21, 1), whole(10, 21), parts(10, 21);
  ops->dropout(kKey, 0.5, {40, 3}, x.matrix(), whole.matrix());
  for (const auto& [first, rows] : {std::pair<int64_t, int64_t>{0, 3}, {3, 7}}) {
    ops->dropout(kKey, 0.5, {40 + first, 3}, x.matrix().row_range(first, rows),
                 parts.matrix().row_range(first, rows));
  }
  EXPECT_TRUE(parts.same_bits(whole));
}

TEST_P(DropoutOf, InPlaceAndWithAStepOnTheDeviceGiveTheSameBits) {
  Cells x = Cells::random(5, 21, 1), want(5, 21);
  const std::vector<uint32_t> step{3};
  ops->dropout(kKey, 0.5, {40, 3}, x.matrix(), want.matrix());
  ops->dropout(kKey, 0.5, {40, 9, step}, x.matrix(), x.matrix());
  for (int64_t i = 0; i < 5 * 21; ++i) EXPECT_EQ(x.at(i / 21, i % 21), want.at(i / 21, i % 21));
}

INSTANTIATE_TEST_SUITE_P(All, DropoutOf, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
