#include <vector>

#include <gtest/gtest.h>

#include "kernels/launch.cuh"
#include "on_device.h"
#include "simt/simt.h"

namespace dlrm::kernels {
namespace {

__global__ void fold(int* value, int more) { *value = *value * 2 + more; }
__global__ void add_both(const int* a, const int* b, int* sum) { *sum = *a + *b; }

class Graphs : public testing::Test {
 protected:
  void SetUp() override {
    cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&side_, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming);
    cudaEventCreateWithFlags(&join_, cudaEventDisableTiming);
  }
  void TearDown() override {
    cudaDeviceSynchronize();
    cudaEventDestroy(fork_);
    cudaEventDestroy(join_);
    cudaStreamDestroy(stream_);
    cudaStreamDestroy(side_);
    cudaGetLastError();
  }
  cudaError_t begin() { return cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal); }
  cudaGraphExec_t end() {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaGraphInstantiate(&exec, graph), cudaSuccess);
    cudaGraphDestroy(graph);
    return exec;
  }
  cudaStream_t stream_ = nullptr, side_ = nullptr;
  cudaEvent_t fork_ = nullptr, join_ = nullptr;
};

TEST_F(Graphs, CaptureQueuesNothing) {
  const OnDevice<int> value({1});
  ASSERT_EQ(begin(), cudaSuccess);
  launch(fold, {1, 1}, stream_, value.data(), 1);
  const cudaGraphExec_t exec = end();
  EXPECT_EQ(simt::pending_operations(), 0u);
  EXPECT_EQ(value.download().at(0), 1);
  cudaGraphExecDestroy(exec);
}

TEST_F(Graphs, EachLaunchRunsWithTheCapturedArguments) {
  const OnDevice<int> value({1});
  int more = 1;
  ASSERT_EQ(begin(), cudaSuccess);
  launch(fold, {1, 1}, stream_, value.data(), more);
  simt::stream_operation(stream_, [p = value.data()] { *p += 10; });
  more = 100;
  const cudaGraphExec_t exec = end();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  EXPECT_EQ(value.download().at(0), ((1 * 2 + 11) * 2 + 11) * 2 + 11);
  cudaGraphExecDestroy(exec);
}

TEST_F(Graphs, ASideStreamJoinsThroughEvents) {
  const OnDevice<int> a({1}), b({2}), sum({0});
  ASSERT_EQ(begin(), cudaSuccess);
  launch(fold, {1, 1}, stream_, a.data(), 0);
  ASSERT_EQ(cudaEventRecord(fork_, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(side_, fork_), cudaSuccess);
  launch(fold, {1, 1}, side_, b.data(), 0);
  launch(fold, {1, 1}, stream_, a.data(), 0);
  ASSERT_EQ(cudaEventRecord(join_, side_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(stream_, join_), cudaSuccess);
  launch(add_both, {1, 1}, stream_, a.data(), b.data(), sum.data());
  const cudaGraphExec_t exec = end();
  for (uint64_t seed = 0; seed < 10; ++seed) {
    simt::set_seed(seed);
    const std::vector<int> before_a = a.download(), before_b = b.download();
    EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
    EXPECT_EQ(sum.download().at(0), before_a[0] * 4 + before_b[0] * 2);
  }
  cudaGraphExecDestroy(exec);
}

TEST_F(Graphs, WorkThatNeverJoinsIsRefused) {
  const OnDevice<int> a({1});
  ASSERT_EQ(begin(), cudaSuccess);
  cudaEventRecord(fork_, stream_);
  cudaStreamWaitEvent(side_, fork_);
  launch(fold, {1, 1}, side_, a.data(), 0);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureUnjoined);
}

TEST_F(Graphs, CapturedWorkCannotWaitForWorkThatIsNot) {
  const OnDevice<int> a({1});
  launch(fold, {1, 1}, side_, a.data(), 0);
  cudaEventRecord(fork_, side_);
  ASSERT_EQ(begin(), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(stream_, fork_), cudaErrorStreamCaptureIsolation);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
}

TEST_F(Graphs, ALaunchReadsPinnedMemoryWhenItRuns) {
  const OnDevice<int> value({0});
  int* host = nullptr;
  ASSERT_EQ(cudaMallocHost(&host, sizeof(int)), cudaSuccess);
  *host = 1;
  ASSERT_EQ(begin(), cudaSuccess);
  cudaMemcpyAsync(value.data(), host, sizeof(int), cudaMemcpyDefault, stream_);
  const cudaGraphExec_t exec = end();
  for (const int number : {5, 6}) {
    *host = number;
    cudaGraphLaunch(exec, stream_);
    cudaStreamSynchronize(stream_);
    EXPECT_EQ(value.download().at(0), number);
  }
  cudaGraphExecDestroy(exec);
  cudaFreeHost(host);
}

}  // namespace
}  // namespace dlrm::kernels
