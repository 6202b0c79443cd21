// Elements as the reference reads and writes them: each value is rounded once.
#include "ops/reference/elements.h"

#include <bit>
#include <cmath>
#include <limits>

#include "fixture.h"

namespace dlrm {
namespace {

/// The element with these bits.
double value_of(DType type, uint16_t bits) { return reference::load(&bits, type, 0); }

uint16_t stored(DType type, double value) {
  uint16_t bits[3] = {0x1234, 0x1234, 0x1234};
  reference::store(bits, type, 1, value);
  EXPECT_EQ(bits[0], 0x1234);
  EXPECT_EQ(bits[2], 0x1234);
  return bits[1];
}

/// Between every two neighbours, a value just below and above their middle is nearer to one of
/// them. fp32 holds the middle but not these values, which it would round to the middle.
TEST(ReferenceElements, AreRoundedOnce) {
  for (const DType type : {DType::kBFloat16, DType::kFloat16}) {
    const uint16_t largest = type == DType::kBFloat16 ? 0x7f7f : 0x7bff;
    for (const uint16_t sign : {uint16_t{0}, uint16_t{0x8000}}) {
      for (uint32_t magnitude = 0; magnitude < largest; magnitude += 1 + magnitude % 7) {
        const auto low = static_cast<uint16_t>(magnitude | sign);
        const auto high = static_cast<uint16_t>((magnitude + 1) | sign);
        const double a = value_of(type, low), b = value_of(type, high), middle = (a + b) / 2;
        ASSERT_EQ(stored(type, a), low);
        ASSERT_EQ(stored(type, middle), low % 2 == 0 ? low : high) << low;
        ASSERT_EQ(stored(type, middle + (a - middle) * 0x1p-40), low) << low;
        ASSERT_EQ(stored(type, middle + (b - middle) * 0x1p-40), high) << low;
      }
    }
    const uint16_t infinity = type == DType::kBFloat16 ? 0x7f80 : 0x7c00;
    EXPECT_EQ(stored(type, value_of(type, largest)), largest);
    for (const double huge : {1e39, 1e300, double{INFINITY}}) {
      EXPECT_EQ(stored(type, huge), infinity) << huge;
      EXPECT_EQ(stored(type, -huge), infinity | 0x8000) << huge;
    }
    EXPECT_TRUE(std::isnan(value_of(type, stored(type, NAN))));
    EXPECT_EQ(stored(type, -0.0), 0x8000);
  }
}

}  // namespace
}  // namespace dlrm
