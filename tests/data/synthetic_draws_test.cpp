#include "dlrm/data/synthetic_draws.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/core/isa.h"
#include "dlrm/core/random.h"

#include "data/draw_kernel.h"

namespace dlrm {
namespace {

std::vector<int64_t> ids(const PowerLaw& law, uint64_t first, int64_t count, uint64_t key = 5) {
  std::vector<int64_t> out(static_cast<size_t>(count));
  draw_ids(law, key, 7, first, count, out.data());
  return out;
}

/// The published formula, computed with the standard library's pow.
int64_t direct_id(double r, int64_t rows, double alpha) {
  const double g = 1.0 - alpha;
  const double top = std::pow(static_cast<double>(rows) + 1.0, g);
  return static_cast<int64_t>(std::pow(r * (top - 1.0) + 1.0, 1.0 / g)) - 1;
}

double bits_of_element(uint64_t key, uint64_t e) {
  const uint64_t c = e / 2;
  const auto w = philox(key, {static_cast<uint32_t>(c), static_cast<uint32_t>(c >> 32), 7, 4});
  const size_t at = 2 * (e % 2);
  return static_cast<double>(((static_cast<uint64_t>(w[at + 1]) << 32) | w[at]) >> 12) * 0x1p-52;
}

TEST(DrawIds, ValuesFollowThePublishedFormula) {
  for (const double alpha : {1.05, 1.2, 0.5, 0.9, 2.0}) {
    for (const int64_t rows : {int64_t{1}, int64_t{3}, int64_t{1000}, int64_t{2000000000}}) {
      const auto drawn = ids(PowerLaw(rows, alpha), 11, 2000);
      int64_t differing = 0;
      for (size_t i = 0; i < drawn.size(); ++i) {
        const int64_t want = direct_id(bits_of_element(5, 11 + i), rows, alpha);
        ASSERT_NEAR(drawn[i], want, 1) << alpha << " " << rows;
        differing += drawn[i] != want;
      }
      EXPECT_LE(differing, 2);  // rounding may fall on either side of an integer
    }
  }
}

TEST(DrawIds, AlphaZeroIsUniform) {
  std::vector<int64_t> counts(10);
  for (const int64_t id : ids(PowerLaw(10, 0), 0, 100000)) ++counts[static_cast<size_t>(id)];
  for (const int64_t count : counts) EXPECT_NEAR(count, 10000, 500);
}

TEST(DrawIds, AlphaOneIsTheLimitOfItsNeighbours) {
  const auto at = ids(PowerLaw(100000, 1.0), 0, 5000);
  const auto near = ids(PowerLaw(100000, 1.0 + 1e-7), 0, 5000);
  for (size_t i = 0; i < at.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(at[i]), static_cast<double>(near[i]),
                1.0 + 1e-4 * static_cast<double>(at[i]));
  }
}

TEST(DrawIds, EveryAlphaStaysInRange) {
  for (const double alpha : {0.0, 0.3, 1.0, 1.05, 3.0, 8.0}) {
    for (const int64_t rows : {int64_t{1}, int64_t{2}, int64_t{77}, int64_t{1} << 40}) {
      for (const int64_t id : ids(PowerLaw(rows, alpha), 3, 1000)) {
        ASSERT_GE(id, 0);
        ASSERT_LT(id, rows);
      }
    }
  }
}

TEST(DrawIds, APartEqualsThatPartOfTheWhole) {
  const PowerLaw law(1000, 1.05);
  const uint64_t far = (uint64_t{1} << 34) - 200;
  const auto whole = ids(law, far, 600);
  for (int64_t first = 0; first < 300; first += 37) {
    const auto part = ids(law, far + static_cast<uint64_t>(first), 300);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + first));
  }
}

TEST(DrawUniform, EachValueIsAWordOfPhilox) {
  std::vector<float> drawn(50);
  draw_uniform(9, 1, 3, 50, 100.0f, drawn.data());
  for (size_t i = 0; i < drawn.size(); ++i) {
    const auto e = static_cast<uint32_t>(i) + 3;
    EXPECT_EQ(drawn[i], uniform01(philox(9, {e / 4, 0, 1, 5})[e % 4]) * 100.0f);
  }
}

TEST(Draws, WriteTheRequestedElementsAlone) {
  constexpr size_t kRoom = 8 * kDrawLanes;
  const PowerLaw law(1000, 1.05);
  for (const uint64_t first : {uint64_t{0}, uint64_t{1}, 4 * uint64_t{kDrawLanes}}) {
    for (const int64_t count : {int64_t{0}, int64_t{1}, 2 * kDrawLanes - 1, 2 * kDrawLanes,
                                4 * kDrawLanes - 1, 4 * kDrawLanes, 4 * kDrawLanes + 1}) {
      std::vector<int64_t> numbers(kRoom, -7);
      draw_ids(law, 5, 7, first, count, numbers.data());
      std::vector<float> reals(kRoom, -7);
      draw_uniform(5, 7, first, count, 1, reals.data());
      for (size_t i = 0; i < kRoom; ++i) {
        const bool requested = static_cast<int64_t>(i) < count;
        ASSERT_EQ(numbers[i] != -7, requested) << first << " " << count << " " << i;
        ASSERT_EQ(reals[i] != -7, requested) << first << " " << count << " " << i;
      }
    }
  }
}

TEST(DrawKernels, EveryInstructionSetGivesTheSameBits) {
  std::vector<const DrawKernels*> sets{&draw_kernels_avx2()};
  if (vector_isa() >= Isa::kAvx512) sets.push_back(&draw_kernels_avx512());
  for (const double alpha : {0.0, 1.0, 1.05}) {
    const PowerLaw law(123456789, alpha);
    std::vector<int64_t> want(2 * kDrawLanes), got(2 * kDrawLanes);
    std::vector<float> want_floats(4 * kDrawLanes), got_floats(4 * kDrawLanes);
    sets[0]->ids(law, 1, 2, 3, want.data());
    sets[0]->uniform(1, 2, 3, 100.0f, want_floats.data());
    for (const DrawKernels* set : sets) {
      set->ids(law, 1, 2, 3, got.data());
      set->uniform(1, 2, 3, 100.0f, got_floats.data());
      EXPECT_EQ(got, want);
      EXPECT_EQ(got_floats, want_floats);
    }
  }
}

}  // namespace
}  // namespace dlrm
