#include "kernels/rank_sum.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/core/dtype.h"

#include "on_device.h"

namespace dlrm::kernels {
namespace {

constexpr int kRanks = 4;

/// The value of a rank. In any order but that of the ranks, sums of these lose other digits.
float value_of(int rank, int64_t i) {
  const float large = 0x1p24f * static_cast<float>(1 + i % 3), small = static_cast<float>(i % 20);
  const float values[kRanks] = {large, small + 1, -large, small / 3};  // the last one is rounded
  return values[rank];
}

template <class T>
T stored(float value) {
  if constexpr (sizeof(T) == 2) {
    return BFloat16(value).bits;
  } else {
    return value;
  }
}

/// Behind device memory lie bytes that would change a sum.
template <class In, class Out>
void expect_sums_in_rank_order() {
  for (const int64_t count : {1, 5, 256, 257, 70'000}) {
    std::vector<In> parts;
    std::vector<Out> want;
    for (int rank = 0; rank < kRanks; ++rank) {
      for (int64_t i = 0; i < count; ++i) parts.push_back(stored<In>(value_of(rank, i)));
    }
    for (int64_t i = 0; i < count; ++i) {
      float sum = 0;
      for (int rank = 0; rank < kRanks; ++rank) {
        const float value = value_of(rank, i);
        sum += sizeof(In) == 2 ? static_cast<float>(BFloat16(value)) : value;
      }
      want.push_back(stored<Out>(sum));
    }
    const OnDevice<In> in(parts);
    const OnDevice<Out> out(std::vector<Out>(static_cast<size_t>(count), Out{7}));
    sum_of_ranks(in.data(), kRanks, count, out.data(), nullptr);
    EXPECT_EQ(out.download(), want) << count;
  }
}

TEST(RankSum, AddsThePartsOfAllRanksInTheirOrder) {
  expect_sums_in_rank_order<uint16_t, uint16_t>();
  expect_sums_in_rank_order<uint16_t, float>();
  expect_sums_in_rank_order<float, uint16_t>();
}

}  // namespace
}  // namespace dlrm::kernels
