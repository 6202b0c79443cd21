// Streams, events and copies: the guaranteed order, and the effects of a missing dependency.
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/launch.cuh"
#include "on_device.h"
#include "simt/simt.h"

namespace dlrm::kernels {
namespace {

using testing::HasSubstr;

__global__ void add_to(int* value, int more) { *value = *value * 2 + more; }

class Streams : public testing::Test {
 protected:
  void SetUp() override {
    cudaStreamCreateWithFlags(&first_, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&second_, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event_, cudaEventDisableTiming);
    cudaMallocHost(&host_, 64 * sizeof(int));
  }
  void TearDown() override {
    cudaDeviceSynchronize();
    cudaFreeHost(host_);
    cudaEventDestroy(event_);
    cudaStreamDestroy(first_);
    cudaStreamDestroy(second_);
  }

  /// The results of two streams that start from 1, for many seeds, with or without an event between
  /// them.
  std::set<int> results(bool waits) {
    const OnDevice<int> value({1});
    std::set<int> seen;
    for (uint64_t seed = 0; seed < 30; ++seed) {
      simt::set_seed(seed);
      host_[0] = 1;
      cudaMemcpyAsync(value.data(), host_, sizeof(int), cudaMemcpyDefault, first_);
      launch(add_to, {1, 1}, first_, value.data(), 1);
      cudaEventRecord(event_, first_);
      if (waits) cudaStreamWaitEvent(second_, event_);
      launch(add_to, {1, 1}, second_, value.data(), 5);
      cudaMemcpyAsync(host_ + 1, value.data(), sizeof(int), cudaMemcpyDefault, second_);
      cudaStreamSynchronize(second_);
      seen.insert(host_[1]);
      cudaDeviceSynchronize();
    }
    return seen;
  }

  cudaStream_t first_ = nullptr, second_ = nullptr;
  cudaEvent_t event_ = nullptr;
  int* host_ = nullptr;
};

TEST_F(Streams, AnEventOrdersTwoStreams) { EXPECT_EQ(results(true), (std::set<int>{11})); }

TEST_F(Streams, MissingEventWaitShowsInResultsThatDependOnTheOrder) {
  EXPECT_GT(results(false).size(), 1u);
}

TEST_F(Streams, WorkRunsOnlyOnceAThreadWaits) {
  const OnDevice<int> value({1});
  host_[1] = 0;
  launch(add_to, {1, 1}, first_, value.data(), 1);
  cudaMemcpyAsync(host_ + 1, value.data(), sizeof(int), cudaMemcpyDefault, first_);
  EXPECT_EQ(host_[1], 0);
  EXPECT_EQ(simt::pending_operations(), 2u);
  cudaStreamSynchronize(first_);
  EXPECT_EQ(host_[1], 3);
}

TEST_F(Streams, PollingAnEventReachesIt) {
  const OnDevice<int> value({1});
  for (int i = 0; i < 20; ++i) launch(add_to, {1, 1}, first_, value.data(), 0);
  cudaEventRecord(event_, first_);
  int polls = 0;
  while (cudaEventQuery(event_) == cudaErrorNotReady) ++polls;
  EXPECT_GT(polls, 1);
  EXPECT_EQ(value.download().at(0), 1 << 20);
}

TEST_F(Streams, TheLegacyStreamWaitsForBlockingStreams) {
  cudaStream_t blocking = nullptr;
  cudaStreamCreate(&blocking);
  for (uint64_t seed = 0; seed < 10; ++seed) {
    simt::set_seed(seed);
    const OnDevice<int> value({1});
    launch(add_to, {1, 1}, blocking, value.data(), 1);
    launch(add_to, {1, 1}, nullptr, value.data(), 5);
    launch(add_to, {1, 1}, blocking, value.data(), 7);
    EXPECT_EQ(value.download().at(0), ((1 * 2 + 1) * 2 + 5) * 2 + 7);
  }
  cudaStreamDestroy(blocking);
}

TEST_F(Streams, PinnedBufferReusedTooEarlyIsReported) {
  const OnDevice<int> values(std::vector<int>(64, 0));
  std::memset(host_, 0, 64 * sizeof(int));
  cudaMemcpyAsync(values.data(), host_, values.bytes(), cudaMemcpyDefault, first_);
  host_[63] = 1;
  const simt::ErrorsThrow throwing;
  try {
    cudaStreamSynchronize(first_);
    FAIL() << "not reported";
  } catch (const simt::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("pinned buffer reused too early"));
  }
}

TEST_F(Streams, PinnedBufferMayBeReusedAfterTheCopy) {
  const OnDevice<int> values(std::vector<int>(64, 0));
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 64; ++i) host_[i] = round;
    cudaMemcpyAsync(values.data(), host_, values.bytes(), cudaMemcpyDefault, first_);
    cudaEventRecord(event_, first_);
    cudaEventSynchronize(event_);
  }
  EXPECT_EQ(values.download(), std::vector<int>(64, 2));
}

TEST_F(Streams, ADeviceMayWriteWhatALaterCopyReads) {
  const OnDevice<int> value({4}), copy({0});
  host_[0] = 1;
  cudaMemcpyAsync(host_, value.data(), sizeof(int), cudaMemcpyDefault, first_);
  launch(add_to, {1, 1}, first_, host_, 1);
  cudaMemcpyAsync(copy.data(), host_, sizeof(int), cudaMemcpyDefault, first_);
  while (cudaStreamQuery(first_) == cudaErrorNotReady) {
  }
  EXPECT_EQ(copy.download().at(0), 9);
}

TEST_F(Streams, PinnedBufferFreedTooEarlyIsReported) {
  const OnDevice<int> values(std::vector<int>(64, 0));
  int* early = nullptr;
  cudaMallocHost(&early, 64 * sizeof(int));
  cudaMemcpyAsync(values.data(), early, values.bytes(), cudaMemcpyDefault, first_);
  {
    const simt::ErrorsThrow throwing;
    EXPECT_THROW(cudaFreeHost(early), simt::Error);
  }
  cudaStreamSynchronize(first_);
  EXPECT_EQ(cudaFreeHost(early), cudaSuccess);
}

TEST_F(Streams, PageableMemoryIsReadBeforeTheCallReturns) {
  const OnDevice<int> value({0});
  int source = 3;
  cudaMemcpyAsync(value.data(), &source, sizeof(int), cudaMemcpyDefault, first_);
  source = 4;
  EXPECT_EQ(value.download().at(0), 3);
}

TEST_F(Streams, HostFunctionsMustNotCallCuda) {
  const auto call = [](void*) { cudaDeviceSynchronize(); };
  cudaLaunchHostFunc(first_, call, nullptr);
  const simt::ErrorsThrow throwing;
  EXPECT_THROW(cudaStreamSynchronize(first_), simt::Error);
}

TEST_F(Streams, LibraryWorkRunsInItsPlaceWithDeviceMemoryOpen) {
  const OnDevice<int> value({1});
  launch(add_to, {1, 1}, first_, value.data(), 1);
  simt::stream_operation(first_, [p = value.data()] { *p += 10; });
  launch(add_to, {1, 1}, first_, value.data(), 0);
  EXPECT_EQ(value.download().at(0), 26);
}

TEST_F(Streams, MemoryFreedInStreamOrderLivesUntilItsTurn) {
  int* value = nullptr;
  ASSERT_EQ(cudaMallocAsync(&value, sizeof(int), first_), cudaSuccess);
  cudaMemsetAsync(value, 0, sizeof(int), first_);
  launch(add_to, {1, 1}, first_, value, 8);
  cudaMemcpyAsync(host_, value, sizeof(int), cudaMemcpyDefault, first_);
  EXPECT_EQ(cudaFreeAsync(value, first_), cudaSuccess);
  cudaStreamSynchronize(first_);
  EXPECT_EQ(host_[0], 8);
}

TEST_F(Streams, AnAllocationBeyondTheMemoryIsRefused) {
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, size_t{1} << 60), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(Streams, StreamsRunByThemselvesOnRequest) {
  const OnDevice<int> value({1});
  const simt::KeepRunning running;
  launch(add_to, {1, 1}, first_, value.data(), 3);
  while (simt::pending_operations() > 0)
    std::this_thread::yield();  // calls nothing that waits for operations
  EXPECT_EQ(value.download(), std::vector<int>{5});
}

}  // namespace
}  // namespace dlrm::kernels
