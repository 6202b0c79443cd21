// Kernels with planted defects, and the emulator's reports of them.
#include <cmath>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/launch.cuh"
#include "on_device.h"
#include "simt/simt.h"

namespace dlrm::kernels {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr unsigned kAll = 0xffffffffu;

/// The defect reported while `work` and its queued operations run. "" if there is none.
template <class F>
std::string defect_of(F work) {
  const simt::ErrorsThrow throwing;
  try {
    work();
    cudaDeviceSynchronize();
  } catch (const simt::Error& error) {
    return error.what();
  }
  return "";
}

template <bool kBarrier>
__global__ void neighbour(const int* in, int* out) {
  DLRM_SHARED(int, tile, 64);
  tile[threadIdx.x] = in[threadIdx.x];
  if (kBarrier) __syncthreads();
  out[threadIdx.x] = tile[(threadIdx.x + 33) % 64];
}

/// The results of `kernel` for ten seeds.
std::set<std::vector<int>> results(void (*kernel)(const int*, int*)) {
  std::vector<int> values(64);
  for (int i = 0; i < 64; ++i) values[i] = i;
  const OnDevice<int> in(values), out(values);
  std::set<std::vector<int>> seen;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    simt::set_seed(seed);
    launch(kernel, {1, 64}, nullptr, in.data(), out.data());
    seen.insert(out.download());
  }
  return seen;
}

TEST(Defects, MissingBarrierShowsInResultsThatDependOnTheOrder) {
  EXPECT_EQ(results(neighbour<true>).size(), 1u);
  EXPECT_GT(results(neighbour<false>).size(), 1u);
}

__global__ void one_lane_ends(int* out) {
  if (threadIdx.x == 5) return;
  out[threadIdx.x] = __shfl_xor_sync(kAll, out[threadIdx.x], 1);
}
TEST(Defects, LaneThatEndedIsMissingFromItsMask) {
  const OnDevice<int> out(std::vector<int>(32, 0));
  EXPECT_THAT(defect_of([&] {
                launch(one_lane_ends, {1, 32}, nullptr, out.data());
              }),
              AllOf(HasSubstr("missing lane"), HasSubstr("defects_test.cpp"),
                    HasSubstr("lane 5 has ended")));
}

__global__ void one_lane_elsewhere(int* out) {
  if (threadIdx.x == 7) {
    __syncthreads();
  } else {
    out[threadIdx.x] = __shfl_sync(kAll, 1, 0);
    __syncthreads();
  }
}
TEST(Defects, LaneThatWaitsElsewhereIsMissingFromItsMask) {
  const OnDevice<int> out(std::vector<int>(32, 0));
  EXPECT_THAT(defect_of([&] {
                launch(one_lane_elsewhere, {1, 32}, nullptr, out.data());
              }),
              AllOf(HasSubstr("missing lane"), HasSubstr("lane 7 waits at the barrier")));
}

__global__ void short_warp(int* out) { out[threadIdx.x] = __shfl_sync(kAll, 1, 0); }
TEST(Defects, LaneBeyondTheBlockIsMissingFromItsMask) {
  const OnDevice<int> out(std::vector<int>(64, 0));
  EXPECT_THAT(defect_of([&] {
                launch(short_warp, {1, 40}, nullptr, out.data());
              }),
              AllOf(HasSubstr("missing lane"), HasSubstr("beyond the block's threads")));
}

__global__ void outside_mask() { __syncwarp(threadIdx.x < 4 ? 0xfu : 0xfu); }
TEST(Defects, CallerOutsideItsMaskIsReported) {
  EXPECT_THAT(defect_of([&] {
                launch(outside_mask, {1, 32}, nullptr);
              }),
              HasSubstr("which leaves it out"));
}

__global__ void different_operations(int* out) {
  out[threadIdx.x] = threadIdx.x < 16 ? __shfl_sync(kAll, 1, 0) : __any_sync(kAll, 1);
}
TEST(Defects, LanesThatMeetInDifferentOperationsAreReported) {
  const OnDevice<int> out(std::vector<int>(32, 0));
  EXPECT_THAT(defect_of([&] {
                launch(different_operations, {1, 32}, nullptr, out.data());
              }),
              HasSubstr("meet in different operations"));
}

__global__ void return_before_barrier() {
  if (threadIdx.x == 40) return;
  __syncthreads();
}
TEST(Defects, ReturnBeforeABarrierIsDivergence) {
  EXPECT_THAT(
      defect_of([&] {
        launch(return_before_barrier, {1, 64}, nullptr);
      }),
      AllOf(HasSubstr("divergence at a barrier"), HasSubstr("thread 40 (lane 8) has ended")));
}

__global__ void two_barriers() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
TEST(Defects, BarriersInTwoBranchesAreDivergence) {
  EXPECT_THAT(defect_of([&] {
                launch(two_barriers, {1, 64}, nullptr);
              }),
              HasSubstr("divergence at a barrier"));
}

__global__ void sum_unwritten(float* out) {
  DLRM_SHARED(float, tile, 32);
  if (threadIdx.x < 31) tile[threadIdx.x] = 1.0f;
  __syncthreads();
  float sum = 0.0f;
  for (int i = 0; i < 32; ++i) sum += tile[i];
  out[threadIdx.x] = sum;
}
TEST(Defects, UninitialisedSharedMemoryIsNaN) {
  const OnDevice<float> out(std::vector<float>(32, 0.0f));
  launch(sum_unwritten, {4, 32}, nullptr, out.data());
  for (const float sum : out.download()) EXPECT_TRUE(std::isnan(sum));
}

__global__ void write_at(float* out, int at) { out[at] = 1.0f; }
__global__ void write_shared(float* out, int at) {
  DLRM_SHARED(float, tile, 10);
  tile[threadIdx.x] = 0.0f;
  tile[at] = 1.0f;
  out[threadIdx.x] = tile[threadIdx.x];
}

#if !defined(__SANITIZE_ADDRESS__)
TEST(Defects, WriteBeyondAnAllocationIsReported) {
  const simt::ErrorsThrow throwing;
  float* out = nullptr;
  ASSERT_EQ(cudaMalloc(&out, 40), cudaSuccess);
  EXPECT_THAT(
      defect_of([&] {
        launch(write_at, {1, 1}, nullptr, out, 12);
      }),
      AllOf(HasSubstr("wrote out of bounds, 8 bytes past the end"), HasSubstr("of 40 bytes")));
}
TEST(Defects, WriteBeyondASharedArrayIsReported) {
  const OnDevice<float> out(std::vector<float>(32, 0.0f));
  EXPECT_THAT(defect_of([&] {
                launch(write_shared, {1, 10}, nullptr, out.data(), 11);
              }),
              HasSubstr("past the end of a shared array of 40 bytes"));
}
#else
__global__ void read_at(const float* in, float* out, int at) { out[0] = in[at]; }
TEST(DefectsDeathTest, ReadBeyondAnAllocationIsReported) {
  const OnDevice<float> in(std::vector<float>(10, 0.0f)), out({0.0f});
  EXPECT_DEATH(
      {
        launch(read_at, {1, 1}, nullptr, in.data(), out.data(), 10);
        cudaDeviceSynchronize();
      },
      "use-after-poison");
}
TEST(DefectsDeathTest, WriteBeyondASharedArrayIsReported) {
  const OnDevice<float> out(std::vector<float>(32, 0.0f));
  EXPECT_DEATH(
      {
        launch(write_shared, {1, 10}, nullptr, out.data(), 10);
        cudaDeviceSynchronize();
      },
      "use-after-poison|out of bounds");
}
#endif

TEST(DefectsDeathTest, WriteFarFromAnyAllocationIsReported) {
  const OnDevice<float> out(std::vector<float>(32, 0.0f));
  EXPECT_EXIT(
      {
        launch(write_at, {1, 1}, nullptr, out.data(), 1 << 28);
        cudaDeviceSynchronize();
      },
      testing::ExitedWithCode(3), "kernel launched at .*thread 0.*write out of bounds");
}

TEST(DefectsDeathTest, HostReadOfDeviceMemoryIsReported) {
  const OnDevice<float> data(std::vector<float>(100, 1.0f));
  volatile const float* p = data.data() + 2;
  EXPECT_EXIT(static_cast<void>(*p), testing::ExitedWithCode(3),
              "host read of device memory at .*of 400 bytes.*offset 8");
}

TEST(DefectsDeathTest, HostWriteOfDeviceMemoryIsReported) {
  const OnDevice<float> data(std::vector<float>(100, 1.0f));
  volatile float* p = data.data();
  EXPECT_EXIT(*p = 2.0f, testing::ExitedWithCode(3), "host write of device memory");
}

TEST(Defects, PageableMemoryAsAnArgumentIsReported) {
  std::vector<float> host(10);
  EXPECT_THAT(defect_of([&] {
                launch(write_at, {1, 1}, nullptr, host.data(), 0);
              }),
              HasSubstr("argument 0 of the kernel is"));
}

TEST(Defects, FreedMemoryAsAnArgumentIsReported) {
  float* freed = nullptr;
  ASSERT_EQ(cudaMalloc(&freed, 400), cudaSuccess);
  ASSERT_EQ(cudaFree(freed), cudaSuccess);
  EXPECT_THAT(defect_of([&] { launch(write_at, {1, 1}, nullptr, freed, 0); }), HasSubstr("freed"));
}

TEST(Defects, CopyBeyondAnAllocationIsReported) {
  const OnDevice<float> data(std::vector<float>(10, 1.0f));
  std::vector<float> host(11);
  EXPECT_THAT(defect_of([&] { cudaMemcpy(host.data(), data.data(), 44, cudaMemcpyDefault); }),
              HasSubstr("a copy of 44 bytes passes the end"));
}

}  // namespace
}  // namespace dlrm::kernels
