#include "dlrm/core/dtype.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace dlrm {
namespace {

TEST(BFloat16, RoundsToNearestTiesToEven) {
  EXPECT_EQ(float(BFloat16(1.0f)), 1.0f);
  EXPECT_EQ(float(BFloat16(1.0f + 0x1p-8f)), 1.0f);                // a tie, down to even
  EXPECT_EQ(float(BFloat16(1.0f + 3 * 0x1p-8f)), 1.0f + 0x1p-6f);  // a tie, up to even
  EXPECT_TRUE(std::isnan(float(BFloat16(std::numeric_limits<float>::quiet_NaN()))));
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

TEST(Float16, RoundsToTheNearerNeighbourTiesToEven) {
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
