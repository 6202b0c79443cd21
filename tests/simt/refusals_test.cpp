// Calls that CUDA refuses, and the errors that they return.
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/launch.cuh"
#include "on_device.h"
#include "simt/simt.h"

namespace dlrm::kernels {
namespace {

__global__ void set_to(int* value, int to) { *value = to; }

class Refusals : public testing::Test {
 protected:
  void SetUp() override {
    cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&side_, cudaStreamNonBlocking);
    cudaEventCreate(&event_);
    cudaEventCreate(&later_);
    cudaMallocHost(&host_, sizeof(int));
  }
  void TearDown() override {
    cudaDeviceSynchronize();
    cudaFreeHost(host_);
    cudaEventDestroy(event_);
    cudaEventDestroy(later_);
    cudaStreamDestroy(stream_);
    cudaStreamDestroy(side_);
    cudaGetLastError();
  }
  void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    ASSERT_EQ(cudaStreamBeginCapture(stream_, mode), cudaSuccess);
  }
  /// How the capture of `stream_` ends.
  cudaError_t end() {
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(stream_, &graph);
    EXPECT_EQ(graph != nullptr, error == cudaSuccess);
    if (graph) cudaGraphDestroy(graph);
    return error;
  }
  /// A call that a capture refuses and that invalidates it.
  template <class Call>
  void expect_invalidates(cudaError_t expected, const Call& call) {
    begin();
    EXPECT_EQ(call(), expected);
    EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
  }

  cudaStream_t stream_ = nullptr, side_ = nullptr;
  cudaEvent_t event_ = nullptr, later_ = nullptr;
  int* host_ = nullptr;
};

TEST_F(Refusals, OfStreamsThatWereDestroyed) {
  cudaStream_t gone = nullptr;
  ASSERT_EQ(cudaStreamCreate(&gone), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(gone), cudaSuccess);
  const OnDevice<int> value({1});
  constexpr cudaError_t kRefused = cudaErrorInvalidResourceHandle;
  EXPECT_EQ(cudaStreamDestroy(gone), kRefused);
  EXPECT_EQ(cudaStreamDestroy(nullptr), kRefused);
  EXPECT_EQ(cudaStreamSynchronize(gone), kRefused);
  EXPECT_EQ(cudaStreamQuery(gone), kRefused);
  EXPECT_EQ(cudaEventRecord(event_, gone), kRefused);
  EXPECT_EQ(cudaStreamWaitEvent(gone, event_), kRefused);
  EXPECT_EQ(cudaMemcpyAsync(value.data(), host_, 4, cudaMemcpyDefault, gone), kRefused);
  EXPECT_EQ(cudaStreamBeginCapture(gone, cudaStreamCaptureModeRelaxed), kRefused);
  cudaStreamCaptureStatus status;
  EXPECT_EQ(cudaStreamIsCapturing(gone, &status), kRefused);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(gone, &graph), cudaErrorInvalidValue);
  EXPECT_THROW(launch(set_to, {1, 1}, gone, value.data(), 2), std::runtime_error);
  EXPECT_EQ(cudaGetLastError(), kRefused);
}

TEST_F(Refusals, OfMemoryThatWasNotAllocated) {
  const OnDevice<int> values({1, 2, 3});
  int there = 0;
  EXPECT_EQ(cudaFree(&there), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeAsync(&there, stream_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(&there), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(&there, 0, sizeof(there), stream_), cudaErrorInvalidValue);
  const simt::ErrorsThrow throwing;
  EXPECT_THROW(cudaMemsetAsync(values.data(), 0, 13, stream_), simt::Error);
  EXPECT_THROW(cudaMemcpyAsync(values.data() + 1, host_, 12, cudaMemcpyDefault, stream_),
               simt::Error);
  EXPECT_EQ(values.download(), (std::vector<int>{1, 2, 3}));
}

TEST_F(Refusals, OfCopiesInAnotherDirection) {
  const OnDevice<int> value({1}), other({2});
  int here = 3;
  const auto copy = [&](void* to, const void* from, cudaMemcpyKind kind) {
    return cudaMemcpy(to, from, sizeof(int), kind);
  };
  EXPECT_EQ(copy(value.data(), &here, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(copy(&here, value.data(), cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(copy(value.data(), other.data(), cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(copy(&here, &here, cudaMemcpyHostToHost), cudaSuccess);
  EXPECT_EQ(copy(host_, value.data(), cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(copy(host_, value.data(), cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(copy(value.data(), host_, cudaMemcpyHostToDevice), cudaSuccess);
  for (const auto kind : {cudaMemcpyHostToDevice, cudaMemcpyDeviceToDevice, cudaMemcpyHostToHost}) {
    EXPECT_EQ(copy(&here, value.data(), kind), cudaErrorInvalidValue) << kind;
  }
  for (const auto kind : {cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyHostToHost}) {
    EXPECT_EQ(copy(value.data(), &here, kind), cudaErrorInvalidValue) << kind;
  }
}

TEST_F(Refusals, OfSizesThatNoDeviceHas) {
  const OnDevice<int> value({1});
  const auto refused = [&](dim3 grid, dim3 block, size_t shared = 0) {
    try {
      launch(set_to, {grid, block, shared}, stream_, value.data(), 2);
    } catch (const std::runtime_error&) {
      return true;
    }
    return false;
  };
  EXPECT_FALSE(refused(dim3(1, 65535), dim3(1)));
  EXPECT_FALSE(refused(dim3(1, 1, 65535), dim3(1)));
  EXPECT_FALSE(refused(1, dim3(1024)));
  EXPECT_FALSE(refused(1, dim3(1, 1024)));
  EXPECT_FALSE(refused(1, dim3(1, 1, 64)));
  EXPECT_FALSE(refused(1, 1, 48 << 10));
  EXPECT_TRUE(refused(dim3(1, 65536), dim3(1)));
  EXPECT_TRUE(refused(dim3(1, 1, 65536), dim3(1)));
  EXPECT_TRUE(refused(1, dim3(1025)));
  EXPECT_TRUE(refused(1, dim3(1, 1025)));
  EXPECT_TRUE(refused(1, dim3(1, 1, 65)));
  EXPECT_TRUE(refused(1, dim3(513, 2)));
  EXPECT_TRUE(refused(1, dim3(33, 1, 32)));
  EXPECT_TRUE(refused(1, 1, (48 << 10) + 1));
  for (int axis = 0; axis < 3; ++axis) {
    dim3 none(1, 1, 1);
    (axis == 0 ? none.x : axis == 1 ? none.y : none.z) = 0;
    EXPECT_TRUE(refused(dim3(1), none)) << axis;
  }
}

TEST_F(Refusals, OfCallsDuringACaptureInvalidateIt) {
  const OnDevice<int> value({1});
  constexpr cudaError_t kRefused = cudaErrorStreamCaptureUnsupported;
  int* more = nullptr;
  int here = 0;
  expect_invalidates(kRefused, [&] { return cudaMalloc(&more, 4); });
  expect_invalidates(kRefused, [&] { return cudaHostAlloc(&more, 4, 0); });
  expect_invalidates(kRefused, [&] { return cudaFree(value.data()); });
  expect_invalidates(kRefused, [&] { return cudaStreamSynchronize(stream_); });
  expect_invalidates(kRefused, [&] { return cudaStreamQuery(stream_); });
  expect_invalidates(kRefused, [&] { return cudaStreamSynchronize(side_); });
  expect_invalidates(kRefused, [&] { return cudaStreamQuery(side_); });
  expect_invalidates(kRefused, [&] { return cudaDeviceSynchronize(); });
  expect_invalidates(kRefused, [&] { return cudaEventQuery(event_); });
  expect_invalidates(kRefused, [&] { return cudaEventSynchronize(event_); });
  expect_invalidates(kRefused,
                     [&] { return cudaMemcpy(value.data(), host_, 4, cudaMemcpyDefault); });
  expect_invalidates(kRefused, [&] {
    return cudaMemcpyAsync(value.data(), &here, 4, cudaMemcpyDefault, stream_);
  });
  expect_invalidates(kRefused, [&] {
    return cudaMemcpyAsync(&here, value.data(), 4, cudaMemcpyDefault, stream_);
  });
  expect_invalidates(cudaErrorCapturedEvent, [&] {
    EXPECT_EQ(cudaEventRecord(later_, stream_), cudaSuccess);
    EXPECT_EQ(cudaEventQuery(later_), cudaErrorCapturedEvent);
    return cudaEventSynchronize(later_);
  });
  EXPECT_EQ(value.download(), std::vector<int>{1});
}

TEST_F(Refusals, OfMemoryInTheOrderOfACapturedStreamLeaveTheCaptureValid) {
  int *before = nullptr, *more = nullptr;
  ASSERT_EQ(cudaMallocAsync(&before, 4, stream_), cudaSuccess);
  begin();
  EXPECT_EQ(cudaMallocAsync(&more, 4, stream_), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaFreeAsync(before, stream_), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaMallocAsync(&more, 4, side_), cudaSuccess);
  EXPECT_EQ(end(), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(before, stream_), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(more, side_), cudaSuccess);
}

TEST_F(Refusals, OfCapturesThatDoNotFit) {
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed),
            cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(nullptr, &graph), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorInvalidValue);
  begin();
  EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaErrorInvalidValue);
  // Another stream joins, and cannot end it.
  EXPECT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(side_, event_), cudaSuccess);
  EXPECT_EQ(cudaStreamEndCapture(side_, &graph), cudaErrorStreamCaptureUnmatched);
  EXPECT_EQ(end(), cudaSuccess);
  // The event belongs to a capture that has ended.
  EXPECT_EQ(cudaStreamWaitEvent(side_, event_), cudaErrorCapturedEvent);
}

TEST_F(Refusals, OfTwoCapturesThatMeet) {
  begin();
  ASSERT_EQ(cudaStreamBeginCapture(side_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event_, side_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(stream_, event_), cudaErrorStreamCaptureMerge);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(side_, &graph), cudaSuccess);
  cudaGraphDestroy(graph);
  EXPECT_EQ(end(), cudaSuccess);
}

TEST_F(Refusals, OfALaunchWithinACapture) {
  begin();
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph), cudaSuccess);
  cudaGraphDestroy(graph);
  begin();
  EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaErrorNotSupported);
  end();
  EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  cudaGraphExecDestroy(exec);
}

TEST_F(Refusals, OfACaptureDependOnItsModeAndThread) {
  const auto allocates = [] {
    int* more = nullptr;
    const bool done = cudaMalloc(&more, 4) == cudaSuccess;
    cudaFree(more);
    return done;
  };
  const auto elsewhere = [&] {
    bool done = false;
    std::thread([&] { done = allocates(); }).join();
    return done;
  };
  begin(cudaStreamCaptureModeRelaxed);
  EXPECT_TRUE(allocates());
  EXPECT_TRUE(elsewhere());
  EXPECT_EQ(end(), cudaSuccess);
  begin(cudaStreamCaptureModeThreadLocal);
  EXPECT_TRUE(elsewhere());
  EXPECT_FALSE(allocates());
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
  begin(cudaStreamCaptureModeGlobal);
  EXPECT_FALSE(elsewhere());
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
  EXPECT_TRUE(allocates());
}

TEST_F(Refusals, ShowInTheStateOfACapture) {
  const auto status = [&] {
    cudaStreamCaptureStatus found;
    EXPECT_EQ(cudaStreamIsCapturing(stream_, &found), cudaSuccess);
    return found;
  };
  EXPECT_EQ(status(), cudaStreamCaptureStatusNone);
  begin();
  EXPECT_EQ(status(), cudaStreamCaptureStatusActive);
  cudaStreamSynchronize(stream_);
  EXPECT_EQ(status(), cudaStreamCaptureStatusInvalidated);
  end();
  EXPECT_EQ(status(), cudaStreamCaptureStatusNone);
}

}  // namespace
}  // namespace dlrm::kernels
