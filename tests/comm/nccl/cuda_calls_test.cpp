// Each call of device communicators, while each of its calls of CUDA in turn fails, in the
// emulator.
#if defined(DLRM_SIMT)
#include "device/cuda_calls.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/comm/device_comm.h"
#include "dlrm/comm/preflight.h"
#include "dlrm/comm/thread_comm.h"

#include "comm/device/nccl_comm.h"

namespace dlrm {
namespace {

constexpr size_t kCount = 6;

/// Every kind of call, on a stream and without one.
void make_calls(Communicator& wire, Device& device) {
  const std::unique_ptr<Stream> stream = device.make_stream();
  const auto ranks = static_cast<size_t>(wire.size());
  Array<float> data(device, kCount * ranks, "data"), received(device, kCount * ranks, "received");
  const std::vector<int64_t> bytes(ranks, 4 * kCount);
  const ExchangeLayout layout = ExchangeLayout::packed(bytes, bytes);
  wire.start_allreduce<float>(data.view(), DType::kFloat32, stream.get()).wait(*stream);
  wire.start_alltoallv(data.data(), received.data(), layout, stream.get()).wait(*stream);
  wire.start_allgatherv(data.data(), received.data(), bytes, layout.receive_offsets, stream.get())
      .wait(*stream);
  wire.start_broadcast(data.data(), 4 * kCount, 0, stream.get()).wait(*stream);
  wire.start_allreduce<float>(data.view()).wait(*stream);
  wire.start_barrier().wait(*stream);
  stream->synchronize();
}

/// One captured graph with a call of each kind.
void make_graph(Communicator& wire, Device& device) {
  const std::unique_ptr<Stream> stream = device.make_stream();
  Array<float> data(device, kCount, "data"), received(device, kCount, "received");
  const ExchangeLayout layout = ExchangeLayout::packed({4 * kCount}, {4 * kCount});
  stream->begin_capture();
  wire.start_allreduce<float>(data.view(), DType::kFloat32, stream.get()).wait(*stream);
  wire.start_alltoallv(data.data(), received.data(), layout, stream.get()).wait(*stream);
  const std::unique_ptr<Graph> graph = stream->end_capture();
  graph->launch(*stream);
  stream->synchronize();
}

using Use = std::function<void(Communicator&, Device&)>;

cuda_calls::Scenario alone(const char* name, const Use& use) {
  return {name, [=](Device& device) {
            const auto host = make_self_comm();
            const auto wire = make_device_comm(*host, device);
            use(*wire, device);
          }};
}

cuda_calls::Scenario over_nccl(const char* name, const Use& use) {
  return {name, [=](Device& device) {
            const auto host = make_self_comm();
            const auto wire = comm::make_nccl_comm(*host, device);
            use(*wire, device);
          }};
}

TEST(CudaCallsOfComm, ThatFailLoseNoMemoryAndLeaveADeviceThatWorks) {
  cuda_calls::expect_good_ends({alone("alone", make_calls), alone("alone, in a graph", make_graph),
                                over_nccl("NCCL", make_calls)});
}

TEST(CudaCallsOfComm, AReportOfNoGpuHasNoName) {
  EXPECT_EQ(inspect_gpus().gpus, 1);
  EXPECT_EQ(inspect_gpus().name, "emulated GPU");
  for (const std::string failing : {"cudaGetDeviceCount", "cudaGetDeviceProperties"}) {
    const simt::OnCalls calls(
        [&](const std::string& call) { return call == failing ? cudaErrorNoDevice : cudaSuccess; });
    const GpuReport report = inspect_gpus();
    EXPECT_EQ(report.gpus, failing == "cudaGetDeviceCount" ? 0 : 1);
    EXPECT_EQ(report.name, "");
    EXPECT_EQ(report.without_peer, "");
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
}

/// Whether calls of this thread may fail.
thread_local bool fails_here = false;

struct FailsHere {
  explicit FailsHere(bool fails) { fails_here = fails; }
  ~FailsHere() { fails_here = false; }
  FailsHere(const FailsHere&) = delete;
  FailsHere& operator=(const FailsHere&) = delete;
};

/// Runs two staged ranks. Call `at` of `name` on rank 0 fails. Returns the text of the error, and
/// whether there are so many calls.
std::pair<std::string, bool> end_of_staged(const std::string& name, int at) {
  bool failed = false;
  const simt::OnCalls calls([&, number = 0](const std::string& call) mutable {
    if (!fails_here || !call.starts_with(name) || number++ != at) return cudaSuccess;
    failed = true;
    return cudaErrorInitializationError;
  });
  const std::string error = error_of([&] {
    run_on_threads(2, [&](Communicator& host) {
      const std::shared_ptr<Device> device = make_cuda_device(0);
      const auto wire = make_device_comm(host, *device, {.kind = DeviceCommKind::kStaged});
      const FailsHere here(host.rank() == 0);
      make_calls(*wire, *device);
      EXPECT_EQ(device->bytes_in_use(), 0u);
    });
  });
  return {error, failed};
}

/// Calls that free memory and end streams may fail. Each other one is an error of both ranks.
TEST(CudaCallsOfComm, AStagedCallThatFailsEndsBothRanks) {
  const std::string expected = cudaGetErrorString(cudaErrorInitializationError);
  for (const std::string name : {"cudaEventCreate 3", "cudaEventRecord", "cudaStreamWaitEvent",
                                 "cudaMemcpyAsync", "cudaHostAlloc", "cudaStreamSynchronize"}) {
    int errors = 0;
    for (int at = 0;; ++at) {
      const auto [error, failed] = end_of_staged(name, at);
      if (!failed) break;
      if (error.empty()) {
        EXPECT_TRUE(name != "cudaMemcpyAsync" && name != "cudaHostAlloc") << "call " << at;
        continue;
      }
      ++errors;
      EXPECT_THAT(error, ::testing::HasSubstr(expected)) << name << ", call " << at;
    }
    EXPECT_GT(errors, 0) << name;
  }
  // How often events are asked depends on the ranks' threads.
  EXPECT_THAT(end_of_staged("cudaEventQuery", 0).first, ::testing::HasSubstr(expected));
}

}  // namespace
}  // namespace dlrm
#endif
