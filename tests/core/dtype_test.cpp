#include "dlrm/core/dtype.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace dlrm {
namespace {

TEST(BFloat16, ConversionRoundsToNearestTiesToEven) {
  EXPECT_EQ(float(BFloat16(1.0f)), 1.0f);
  EXPECT_EQ(float(BFloat16(1.0f + 0x1p-8f)), 1.0f);                // a tie, down to even
  EXPECT_EQ(float(BFloat16(1.0f + 3 * 0x1p-8f)), 1.0f + 0x1p-6f);  // a tie, up to even
  EXPECT_TRUE(std::isnan(float(BFloat16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(StochasticRounding, ABFloat16ValueStaysAsItIs) {
  for (const float value :
       {0.0f, -0.0f, 1.0f, -3.5f, 0x1p-130f, std::numeric_limits<float>::infinity()}) {
    for (const uint32_t random : {0u, 1u, 0xffffu}) {
      const BFloat16 got = round_stochastically(value, static_cast<uint16_t>(random));
      EXPECT_EQ(got.bits, BFloat16(value).bits) << value;
    }
  }
}

TEST(StochasticRounding, TheMeanOverAllRandomBitsIsTheValue) {
  const float value = -(1.0f + 0x1p-7f * 0.25f);  // a quarter of the way from -1 to -(1 + 2^-7)
  int far = 0;
  for (uint32_t random = 0; random < 0x10000; ++random) {
    const float got = float(round_stochastically(value, static_cast<uint16_t>(random)));
    ASSERT_TRUE(got == -1.0f || got == -(1.0f + 0x1p-7f));
    far += got != -1.0f;
  }
  EXPECT_EQ(far, 0x4000);
}

TEST(StochasticRounding, NanStaysNan) {
  for (const uint32_t random : {0u, 0xffffu}) {
    const float nan = std::bit_cast<float>(0x7fffffffu);
    EXPECT_TRUE(std::isnan(float(round_stochastically(nan, static_cast<uint16_t>(random)))));
  }
}

TEST(Float16, EveryFiniteValueSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    Float16 h;
    h.bits = static_cast<uint16_t>(bits);
    const float f = float(h);
    if (std::isnan(f)) continue;
    ASSERT_EQ(Float16(f).bits, h.bits) << bits;
  }
}

TEST(Float16, InfinityAndNanStay) {
  for (const uint32_t bits : {0x7c00u, 0xfc00u, 0x7c01u, 0x7e00u, 0xffffu}) {
    Float16 h;
    h.bits = static_cast<uint16_t>(bits);
    EXPECT_EQ(std::isnan(float(h)), (bits & 0x3ffu) != 0) << bits;
    EXPECT_EQ(std::isinf(float(h)), (bits & 0x3ffu) == 0) << bits;
    EXPECT_EQ(std::signbit(float(h)), bits >= 0x8000u) << bits;
    EXPECT_EQ(std::isnan(float(Float16(float(h)))), std::isnan(float(h))) << bits;
  }
}

TEST(Float16, ConversionRoundsToNearestTiesToEven) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    Float16 low, high;
    low.bits = static_cast<uint16_t>(bits);
    high.bits = static_cast<uint16_t>(bits + 1);
    const float middle = (float(low) + float(high)) / 2;
    ASSERT_EQ(Float16(middle).bits, bits % 2 == 0 ? low.bits : high.bits) << bits;
    ASSERT_EQ(Float16(std::nextafter(middle, 0.0f)).bits, low.bits) << bits;
    ASSERT_EQ(Float16(std::nextafter(middle, 1e9f)).bits, high.bits) << bits;
  }
  EXPECT_TRUE(std::isinf(float(Float16(65520.0f))));
  EXPECT_EQ(float(Float16(65519.0f)), 65504.0f);
}

}  // namespace
}  // namespace dlrm
