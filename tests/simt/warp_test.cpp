#include <array>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/launch.cuh"
#include "on_device.h"

namespace dlrm::kernels {
namespace {

constexpr unsigned kAllLanes = 0xffffffffu;

/// The result of `function` on each lane of one warp.
template <class T>
std::vector<T> lanes(void (*kernel)(T*)) {
  const OnDevice<T> out(std::vector<T>(32, T{}));
  launch(kernel, {1, 32}, nullptr, out.data());
  return out.download();
}

template <class T, class F>
std::vector<T> expected(F of_lane) {
  std::vector<T> values(32);
  for (int lane = 0; lane < 32; ++lane) values[lane] = of_lane(lane);
  return values;
}

__global__ void shuffle_index(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  out[lane] = __shfl_sync(kAllLanes, lane * 10, lane + 1, 8);
}
TEST(Warp, ShuffleReadsTheNamedLaneOfItsSegment) {
  EXPECT_EQ(lanes(shuffle_index),
            expected<int>([](int lane) { return (lane / 8 * 8 + (lane + 1) % 8) * 10; }));
}

__global__ void shuffle_down(double* out) {
  out[threadIdx.x] = __shfl_down_sync(kAllLanes, threadIdx.x + 0.5, 4);
}
TEST(Warp, ShuffleDownKeepsTheLastLanesValues) {
  EXPECT_EQ(lanes(shuffle_down),
            expected<double>([](int lane) { return lane + (lane < 28 ? 4.5 : 0.5); }));
}

__global__ void shuffle_up(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  out[lane] = __shfl_up_sync(kAllLanes, lane, 3, 16);
}
TEST(Warp, ShuffleUpKeepsTheFirstLanesValuesOfASegment) {
  EXPECT_EQ(lanes(shuffle_up),
            expected<int>([](int lane) { return lane % 16 < 3 ? lane : lane - 3; }));
}

__global__ void sum_by_xor(float* out) {
  auto sum = static_cast<float>(threadIdx.x);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
  out[threadIdx.x] = sum;
}
TEST(Warp, ButterflySumsReachEveryLane) {
  EXPECT_EQ(lanes(sum_by_xor), std::vector<float>(32, 496.0f));
}

__global__ void vote(unsigned* out) {
  const unsigned odd = threadIdx.x % 2;
  const unsigned ballot = __ballot_sync(kAllLanes, odd);
  const bool any = __any_sync(kAllLanes, threadIdx.x == 31);
  const bool all = __all_sync(kAllLanes, threadIdx.x < 31);
  out[threadIdx.x] = ballot + (any ? 1 : 0) + (all ? 4 : 0);
}
TEST(Warp, VotesSeeEveryLane) {
  EXPECT_EQ(lanes(vote), std::vector<unsigned>(32, 0xaaaaaaaau + 1));
}

__global__ void match(unsigned* out) {
  out[threadIdx.x] = __match_any_sync(kAllLanes, threadIdx.x % 3 == 0 ? 1.5f : 2.5f);
}
TEST(Warp, MatchFindsTheLanesOfEqualValue) {
  EXPECT_EQ(lanes(match), expected<unsigned>(
                              [](int lane) { return lane % 3 == 0 ? 0x49249249u : ~0x49249249u; }));
}

__global__ void reduce(int* out) {
  const int value = static_cast<int>(threadIdx.x) - 16;
  const int sum = __reduce_add_sync(kAllLanes, value);
  const int least = __reduce_min_sync(kAllLanes, value);
  out[threadIdx.x] = sum * 1000 + least;
}
TEST(Warp, ReductionsAreSigned) { EXPECT_EQ(lanes(reduce), std::vector<int>(32, -16 * 1000 - 16)); }

__global__ void halves(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  const unsigned mine = lane < 16 ? 0x0000ffffu : 0xffff0000u;
  out[lane] = lane < 16 ? __shfl_sync(mine, lane, 3) : __shfl_sync(mine, lane, 20);
}
TEST(Warp, HalvesMaySynchroniseSeparately) {
  EXPECT_EQ(lanes(halves), expected<int>([](int lane) { return lane < 16 ? 3 : 20; }));
}

__global__ void count_in_block(int* out) {
  const int at_least_three = __syncthreads_count(threadIdx.x >= 3);
  const int any = __syncthreads_or(threadIdx.x == 7);
  const int all = __syncthreads_and(threadIdx.x != 7);
  out[blockIdx.x * blockDim.x + threadIdx.x] = at_least_three * 100 + (any != 0) * 10 + (all != 0);
}
TEST(Block, BarriersCountTheirThreads) {
  const OnDevice<int> out(std::vector<int>(300, 0));
  launch(count_in_block, {3, 100}, nullptr, out.data());
  EXPECT_EQ(out.download(), std::vector<int>(300, 97 * 100 + 10));
}

__global__ void reverse(int* data) {
  DLRM_SHARED(int, tile, 200);
  DLRM_DYNAMIC_SHARED(int, copy);
  tile[threadIdx.x] = data[blockIdx.x * 200 + threadIdx.x];
  __syncthreads();
  copy[threadIdx.x] = tile[199 - threadIdx.x];
  __syncthreads();
  data[blockIdx.x * 200 + threadIdx.x] = copy[threadIdx.x] + copy[(threadIdx.x + 1) % 200];
}
TEST(Block, EachBlockHasItsOwnSharedMemory) {
  std::vector<int> values(1000), wanted(1000);
  std::iota(values.begin(), values.end(), 0);
  for (int i = 0; i < 1000; ++i) {
    const int first = i / 200 * 200;
    wanted[i] = first + 199 - i % 200 + first + (199 + 199 - i % 200) % 200;
  }
  const OnDevice<int> data(values);
  launch(reverse, {5, 200, 200 * sizeof(int)}, nullptr, data.data());
  EXPECT_EQ(data.download(), wanted);
}

__global__ void add_up(int* sum, float* most, unsigned* wrapped) {
  atomicAdd(sum, static_cast<int>(threadIdx.x));
  atomicMax(most, static_cast<float>(blockIdx.x));
  atomicInc(wrapped, 6u);
  atomicCAS(sum + 1, 0, 17);
}
TEST(Atomics, UpdatesOfAllBlocksAddUp) {
  const OnDevice<int> sum({0, 0});
  const OnDevice<float> most({0.0f});
  const OnDevice<unsigned> wrapped({0u});
  launch(add_up, {10, 96}, nullptr, sum.data(), most.data(), wrapped.data());
  EXPECT_EQ(sum.download(), (std::vector<int>{10 * 95 * 48, 17}));
  EXPECT_EQ(most.download().at(0), 9.0f);
  EXPECT_EQ(wrapped.download().at(0), 960u % 7u);
}

__global__ void coordinates(unsigned* out) {
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  out[block * (blockDim.x * blockDim.y * blockDim.z) + thread] += block * 100 + thread;
}
TEST(Block, EveryThreadOfAThreeDimensionalGridRunsOnce) {
  const OnDevice<unsigned> out(std::vector<unsigned>(24 * 30, 0u));
  launch(coordinates, {dim3(2, 3, 4), dim3(5, 3, 2)}, nullptr, out.data());
  const std::vector<unsigned> values = out.download();
  for (unsigned i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], i / 30 * 100 + i % 30);
}

}  // namespace
}  // namespace dlrm::kernels
