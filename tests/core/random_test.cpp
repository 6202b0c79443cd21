#include "dlrm/core/random.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace dlrm {
namespace {

// Known answers of Philox4x32-10, from the test vectors published with Random123.
TEST(Philox, ValuesAreThePublishedVectors) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ull, {~0u, ~0u, ~0u, ~0u}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(UniformRow, APartOfARowEqualsThatPartOfTheWholeRow) {
  const uint64_t key = stream_key(7, "table");
  std::vector<float> whole(37), part(5);
  uniform_row(key, 123456789012ull, 0, 37, 0.25f, whole.data());
  for (int64_t c = 0; c + 5 <= 37; ++c) {
    uniform_row(key, 123456789012ull, c, 5, 0.25f, part.data());
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(part[i], whole[static_cast<size_t>(c) + i]);
  }
  for (const float v : whole) EXPECT_LE(std::abs(v), 0.25f);
}

TEST(NormalAt, TheMeanIsZeroAndTheVarianceOne) {
  double sum = 0, squares = 0;
  const int n = 20000;
  for (int i = 0; i < n; ++i) {
    const double v = normal_at(99, static_cast<uint64_t>(i / 100), static_cast<uint32_t>(i % 100));
    sum += v;
    squares += v * v;
  }
  EXPECT_NEAR(sum / n, 0, 0.03);
  EXPECT_NEAR(squares / n, 1, 0.04);
}

TEST(NormalAt, EveryPartOfKeyRowAndColumnCounts) {
  const uint64_t row = 5, high = uint64_t{1} << 32;
  const double value = normal_at(3, row, 8);
  for (const double other :
       {normal_at(4, row, 8), normal_at(3 + high, row, 8), normal_at(3, row + 1, 8),
        normal_at(3, row + high, 8), normal_at(3, row, 9), normal_at(3, row, 10)}) {
    EXPECT_NE(other, value);
  }
  // Two columns share the words of a counter.
  EXPECT_NE(normal_at(3, row, 9), normal_at(3, row, 11));
  EXPECT_EQ(normal_at(3, row, 8), value);
}

TEST(UniformRow, EachValueIsAWordOfPhilox) {
  const uint64_t row = (uint64_t{7} << 32) + 5;
  std::vector<float> values(10);
  uniform_row(99, row, 6, 10, 0.5f, values.data());
  for (size_t i = 0; i < 10; ++i) {
    const auto c = static_cast<uint32_t>(6 + i);
    EXPECT_EQ(values[i], (uniform01(philox(99, {5, 7, c / 4, 0})[c % 4]) * 2.0f - 1.0f) * 0.5f);
  }
}

TEST(NormalRow, EachValueIsTheScaledSumOfTheHalvesOfACounter) {
  const uint64_t row = (uint64_t{7} << 32) + 5;
  std::vector<float> values(10);
  normal_row(99, row, 6, 10, 0.5f, values.data());
  for (size_t i = 0; i < 10; ++i) {
    double sum = 0;
    for (const uint32_t word : philox(99, {5, 7, static_cast<uint32_t>(6 + i), 1})) {
      sum += (word % 65536 - 32767.5) + (word / 65536 - 32767.5);
    }
    EXPECT_NEAR(values[i], 0.5 * sum / std::sqrt(8 * (0x1p32 - 1) / 12), 1e-6);
  }
}

TEST(NormalRow, HasTheMomentsAndTailsOfANormalDistribution) {
  constexpr int64_t kRows = 4000, kColumns = 50, kAll = kRows * kColumns;
  double sum = 0, squares = 0, fourth = 0;
  int64_t beyond[3] = {};
  std::vector<float> row(kColumns);
  for (uint64_t r = 0; r < kRows; ++r) {
    normal_row(3, r, 0, kColumns, 2.0f, row.data());
    for (const float value : row) {
      const double x = value / 2.0;
      sum += x, squares += x * x, fourth += x * x * x * x;
      for (int k = 0; k < 3; ++k) beyond[k] += std::abs(x) > k + 1;
    }
  }
  EXPECT_NEAR(sum / kAll, 0, 0.01);
  EXPECT_NEAR(squares / kAll, 1, 0.01);
  EXPECT_NEAR(fourth / kAll, 3 - 1.2 / 8, 0.05);  // of a sum of eight
  EXPECT_NEAR(double(beyond[0]) / kAll, 0.3173, 0.01);
  EXPECT_NEAR(double(beyond[1]) / kAll, 0.0455, 0.003);
  EXPECT_NEAR(double(beyond[2]) / kAll, 0.0016, 0.0005);  // of a normal distribution 0.0027
}

TEST(InitialRow, PartsOfARowAreThoseOfTheWhole) {
  for (const InitType type : {InitType::kUniform, InitType::kNormal, InitType::kZero}) {
    std::vector<float> whole(37, 9.0f), part(5, 9.0f);
    initial_row({type, 0.25f}, 3, 12, 0, 37, whole.data());
    for (int64_t c = 0; c + 5 <= 37; ++c) {
      initial_row({type, 0.25f}, 3, 12, c, 5, part.data());
      for (int64_t i = 0; i < 5; ++i) {
        EXPECT_EQ(part[static_cast<size_t>(i)], whole[static_cast<size_t>(c + i)]);
      }
    }
    EXPECT_EQ(whole == std::vector<float>(37), type == InitType::kZero);
  }
}

/// Datasets and initial weights depend on them.
TEST(StreamKey, ValuesStayAsTheyAre) {
  EXPECT_EQ(stream_key(1, "a"), 0x376d3ae01023205du);
  EXPECT_EQ(stream_key((uint64_t{1} << 32) + 7, "table"), 0x4f408fbef8ae69f8u);
  EXPECT_EQ(stream_key(0, ""), 0xd233c0db328a302eu);
}

TEST(NormalAt, ValuesStayAsTheyAre) {
  const uint64_t row = (uint64_t{7} << 32) + 5;
  EXPECT_NEAR(normal_at(3, row, 8), -0.6437599239800585, 1e-12);
  EXPECT_NEAR(normal_at(3, row, 9), 0.178614038650521, 1e-12);
}

}  // namespace
}  // namespace dlrm
