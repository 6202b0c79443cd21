#include "kernels/rank_sum.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/core/dtype.h"

#include "on_device.h"

namespace dlrm::kernels {
namespace {

// Behind device memory lie bytes that would change a sum.
TEST(RankSum, AddsThePartsOfAllRanksAndNoOther) {
  constexpr int kRanks = 3;
  for (const int64_t count : {1, 5, 300, 70'000}) {
    std::vector<uint16_t> parts;
    for (int rank = 0; rank < kRanks; ++rank) {
      for (int64_t i = 0; i < count; ++i) {
        parts.push_back(BFloat16(static_cast<float>((rank + 1) * (i % 20))).bits);
      }
    }
    const OnDevice<uint16_t> in(parts), out(std::vector<uint16_t>(static_cast<size_t>(count), 7));
    sum_of_ranks(in.data(), kRanks, count, out.data(), nullptr);
    const std::vector<uint16_t> sums = out.download();
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(sums[static_cast<size_t>(i)], BFloat16(static_cast<float>(6 * (i % 20))).bits) << i;
    }
  }
}

}  // namespace
}  // namespace dlrm::kernels
