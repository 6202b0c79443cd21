#ifdef DLRM_WITH_CUDA
#include "dlrm/device/cuda/sort.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "gpu_fixture.h"

namespace dlrm {
namespace {

class SortOnGpu : public OnGpu {
 protected:
  template <class Key>
  void sorts(size_t count, Key mask, int begin_bit, int end_bit) {
    std::mt19937_64 generator(count);
    std::vector<Key> keys(count);
    for (Key& key : keys) key = static_cast<Key>(generator()) & mask;
    std::vector<uint32_t> values(count);
    std::iota(values.begin(), values.end(), 100u);
    const auto k = upload(keys), sorted_k = upload(keys);
    const auto v = upload(values), sorted_v = upload(values);
    const auto n = static_cast<int64_t>(count);
    const size_t bytes = cuda::sort_pairs_scratch(n, sizeof(Key));
    const Array<char> scratch(*device, bytes + 1, "scratch");
    cuda::sort_pairs(k.data(), sorted_k.data(), v.data(), sorted_v.data(), n, begin_bit, end_bit,
                     scratch.data(), bytes, native());
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), 0u);
    const auto bits = [&](size_t i) {
      return end_bit - begin_bit >= 64
                 ? uint64_t{keys[i]}
                 : (uint64_t{keys[i]} >> begin_bit) & ((uint64_t{1} << (end_bit - begin_bit)) - 1);
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t x, size_t y) { return bits(x) < bits(y); });
    const auto got_k = download(sorted_k.data(), count);
    const auto got_v = download(sorted_v.data(), count);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(got_k[i], keys[order[i]]);
      ASSERT_EQ(got_v[i], values[order[i]]);
    }
  }
};

TEST_F(SortOnGpu, PairsAreSortedStably) {
  for (const size_t count : {1, 2, 31, 1000, 20000}) {
    sorts<uint32_t>(count, 63, 0, 6);
    sorts<uint32_t>(count, UINT32_MAX, 0, 32);
    sorts<uint64_t>(count, UINT64_MAX, 0, 64);
    sorts<uint64_t>(count, (1 << 21) - 1, 0, 21);
  }
}

TEST_F(SortOnGpu, OnlyTheGivenBitsAreCompared) {
  sorts<uint32_t>(5000, UINT32_MAX, 8, 13);
  sorts<uint64_t>(5000, UINT64_MAX, 30, 41);
  sorts<uint32_t>(5000, UINT32_MAX, 3, 3);
}

TEST_F(SortOnGpu, NoPairsAreAccepted) {
  EXPECT_EQ(cuda::sort_pairs_scratch(0, 4), 0u);
  cuda::sort_pairs(static_cast<const uint32_t*>(nullptr), nullptr, nullptr, nullptr, 0, 0, 32,
                   nullptr, 0, native());
}

TEST_F(SortOnGpu, PrefixSumsMayReplaceTheirValues) {
  for (const size_t count : {1, 3, 777, 50000}) {
    const auto n = static_cast<int64_t>(count);
    std::vector<int64_t> values(count), exclusive(count);
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<int64_t>(i % 7) * 1000000007 - 5;
    std::exclusive_scan(values.begin(), values.end(), exclusive.begin(), int64_t{0});
    const auto in = upload(values), out = upload(values);
    const size_t bytes = cuda::sum_scratch(n);
    const Array<char> scratch(*device, bytes + 1, "scratch");
    cuda::exclusive_sum(in.data(), out.data(), n, scratch.data(), bytes, native());
    EXPECT_EQ(download(out.data(), count), exclusive);
    cuda::exclusive_sum(in.data(), in.data(), n, scratch.data(), bytes, native());
    EXPECT_EQ(download(in.data(), count), exclusive);
  }
}

TEST_F(SortOnGpu, SmallIntegersAreSummed) {
  const std::vector<uint32_t> values{3, 0, 4, 1};
  const auto in = upload(values), out = upload(values);
  const size_t bytes = cuda::sum_scratch(4);
  const Array<char> scratch(*device, bytes + 1, "scratch");
  cuda::exclusive_sum(in.data(), out.data(), 4, scratch.data(), bytes, native());
  EXPECT_EQ(download(out.data(), 4), (std::vector<uint32_t>{0, 3, 3, 7}));
}

}  // namespace
}  // namespace dlrm
#endif
