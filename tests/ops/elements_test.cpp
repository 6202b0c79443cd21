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

TEST(ReferenceElements, OfAFloatAreRoundedToNearest) {
  float values[3] = {5, 6, 7};
  reference::store(values, DType::kFloat32, 1, 1 + 0x1p-24 + 0x1p-50);
  EXPECT_EQ(values[1], 1 + 0x1p-23f);
  EXPECT_EQ(reference::load(values, DType::kFloat32, 1), 1 + 0x1p-23);
  EXPECT_EQ(values[0] + values[2], 12);
  EXPECT_TRUE(std::isnan(reference::load(values, static_cast<DType>(7), 0)));
}

TEST(ReferenceElements, AreRoundedToOddBetweenTwoFloats) {
  const auto bits = [](double value) {
    return std::bit_cast<uint32_t>(reference::round_to_odd(value));
  };
  for (const double sign : {1.0, -1.0}) {
    const uint32_t of_sign = sign < 0 ? 0x80000000u : 0;
    for (const uint32_t low : {0u, 1u, 2u, 0x007fffffu, 0x3f800000u, 0x3f800001u, 0x7f7ffffeu}) {
      const double a = std::bit_cast<float>(low), b = std::bit_cast<float>(low + 1);
      EXPECT_EQ(bits(sign * a), of_sign | low);
      for (const double part : {0x1p-20, 0.25, 0.5, 0.75, 1 - 0x1p-20}) {
        EXPECT_EQ(bits(sign * (a + part * (b - a))), of_sign | low | 1) << low << " " << part;
      }
    }
  }
  EXPECT_EQ(reference::round_to_odd(INFINITY), INFINITY);
}

TEST(ReferenceElements, OfAMatrixLieByItsStride) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    Cells cells(2, 3, type);
    for (int64_t i = 0; i < 6; ++i) reference::set(cells.matrix(), i / 3, i % 3, double(i) + 0.5);
    EXPECT_TRUE(cells.margins_untouched());
    for (int64_t i = 0; i < 6; ++i) {
      EXPECT_EQ(reference::get(cells.matrix(), i / 3, i % 3), double(i) + 0.5);
    }
  }
}

}  // namespace
}  // namespace dlrm
