// Each function of a GPU, while each of its calls of CUDA in turn fails, in the emulator.
#if defined(DLRM_SIMT)
#include "cuda_calls.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/device/cuda/runtime.h"
#include "dlrm/device/staging_buffer.h"
#include "dlrm/device/transfer.h"
#include "dlrm/device/utilisation.h"

namespace dlrm {
namespace {

using cuda_calls::Scenario;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all{
      {"a device", [](Device&) { make_cuda_device(0); }},
      {"facts",
       [](Device& device) {
         static_cast<void>(cuda::facts(device));
         EXPECT_EQ(make_utilisation_probe(device), nullptr);
         static_cast<void>(device.available_bytes());
       }},
      {"memory", [](Device& device) { const Array<int> array(device, 100, "numbers"); }},
      {"pinned memory", [](Device& device) { const HostArray<int> array(device, 100, "numbers"); }},
      {"streams", [](Device& device) { device.make_stream(), device.make_urgent_stream(); }},
      {"events",
       [](Device& device) {
         const auto stream = device.make_stream(), other = device.make_stream();
         const auto event = device.make_event();
         stream->record(*event);
         other->wait(*event);
         event->synchronize();
         EXPECT_TRUE(event->reached());
         stream->synchronize();
       }},
      {"timed events",
       [](Device& device) {
         const auto stream = device.make_stream();
         const auto first = device.make_timed_event(), second = device.make_timed_event();
         stream->record(*first);
         stream->record(*second);
         second->synchronize();
         EXPECT_GE(second->milliseconds_since(*first), 0);
       }},
      {"a copy",
       [](Device& device) {
         const auto stream = device.make_stream();
         const HostArray<int> from(device, 4, "from");
         const Array<int> to(device, 4, "to");
         device.copy(to.data(), from.data(), 16, *stream);
         device.copy(to.data(), from.data(), 0, *stream);
         device.copy(to.data(), to.data(), 16, *stream);
         stream->synchronize();
       }},
      {"a graph",
       [](Device& device) {
         const HostArray<int> from(device, 4, "from");
         const Array<int> to(device, 4, "to");
         const auto stream = device.make_stream();
         stream->begin_capture();
         static_cast<void>(stream->capturing());
         device.copy(to.data(), from.data(), 16, *stream);
         const auto graph = stream->end_capture();
         graph->launch(*stream);
         stream->synchronize();
       }},
      {"an abandoned capture",
       [](Device& device) {
         const auto stream = device.make_stream();
         stream->begin_capture();
         stream->abandon_capture();
         stream->synchronize();
       }},
      {"memory that is freed during a capture",
       [](Device& device) {
         const auto stream = device.make_stream();
         std::optional<Array<int>> array(std::in_place, device, 4, "freed");
         std::optional<HostArray<int>> pinned(std::in_place, device, 4, "freed");
         stream->begin_capture();
         array.reset();
         pinned.reset();
         stream->end_capture();
         const Array<int> next(device, 4, "next");
         const HostArray<int> pinned_next(device, 4, "next");
       }},
      {"waits that poll",
       [](Device& device) {
         const auto stream = device.make_stream();
         const auto event = device.make_event();
         stream->record(*event);
         event->synchronize();
         stream->synchronize();
         const Array<int> array(device, 4, "numbers");
         const HostArray<int> pinned(device, 4, "numbers");
       },
       true},
      {"a staging buffer",
       [](Device& device) {
         const auto copies = device.make_stream(), stream = device.make_stream();
         StagingBuffer staging(device, "staging");
         for (int round = 0; round < 2; ++round) {
           staging.begin(StagingBuffer::bytes_of<int>(3));
           staging.take<int>(3)[2] = round;
           staging.send(*copies);
           staging.await(*stream);
           staging.await(*stream);
           staging.release(*stream);
         }
         staging.begin(0);
         staging.send(*copies);
         HostArray<char> filled(device, 64, "filled");
         staging.adopt(filled, 64);
         staging.send(*copies);
         staging.await(*stream);
         stream->synchronize();
       }},
      {"a transfer",
       [](Device& device) {
         const auto stream = device.make_stream();
         Transfer transfer(device, *stream);
         const Array<int> array(device, 4, "numbers");
         int values[] = {1, 2, 3, 4};
         transfer.to_device(array.data(), values, sizeof values);
         transfer.to_host(values, array.data(), sizeof values);
         EXPECT_EQ(values[3], 4);
       }},
  };
  return all;
}

TEST(CudaCalls, ThatFailLoseNoMemoryAndLeaveADeviceThatWorks) {
  cuda_calls::expect_good_ends(scenarios());
}

class FailingWork : public ::testing::Test {
 protected:
  /// Each work if all calls of a function fail.
  void expect_errors(const std::vector<std::pair<std::string, std::function<void()>>>& works) {
    for (const auto& [function, work] : works) {
      const simt::OnCalls calls = cuda_calls::failing(function, cudaErrorInitializationError);
      EXPECT_THAT(error_of(work), AllOf(HasSubstr(function), HasSubstr("initialization error")));
    }
  }

  const std::shared_ptr<Device> device_ = make_cuda_device(0);
  const std::unique_ptr<Stream> stream_ = device_->make_stream();
  const std::unique_ptr<Event> event_ = device_->make_event(), timed_ = device_->make_timed_event();
  const HostArray<int> from_{*device_, 4, "from"};
  const Array<int> to_{*device_, 4, "to"};
};

TEST_F(FailingWork, IsAnErrorWithItsReason) {
  stream_->record(*timed_);
  stream_->synchronize();
  expect_errors({
      {"cudaMallocAsync", [&] { const Array<int> array(*device_, 100, "numbers"); }},
      {"cudaMemsetAsync", [&] { const Array<int> array(*device_, 100, "numbers"); }},
      {"cudaHostAlloc", [&] { const HostArray<int> array(*device_, 100, "numbers"); }},
      {"cudaMemGetInfo", [&] { device_->available_bytes(); }},
      {"cudaStreamCreate", [&] { device_->make_stream(); }},
      {"cudaEventCreate", [&] { device_->make_event(); }},
      {"cudaEventRecord", [&] { stream_->record(*event_); }},
      {"cudaStreamWaitEvent", [&] { stream_->wait(*event_); }},
      {"cudaStreamSynchronize", [&] { stream_->synchronize(); }},
      {"cudaEventSynchronize", [&] { event_->synchronize(); }},
      {"cudaEventQuery", [&] { event_->reached(); }},
      {"cudaEventElapsedTime", [&] { timed_->milliseconds_since(*timed_); }},
      {"cudaMemcpyAsync", [&] { device_->copy(to_.data(), from_.data(), 16, *stream_); }},
      {"cudaStreamBeginCapture", [&] { stream_->begin_capture(); }},
  });
}

TEST_F(FailingWork, OfAHostThatMakesProgressIsAnErrorToo) {
  device_->set_progress([] {});
  expect_errors({{"cudaStreamQuery", [&] { stream_->synchronize(); }},
                 {"cudaEventQuery", [&] { event_->synchronize(); }}});
  device_->set_progress({});
}

TEST_F(FailingWork, OfAGraphIsAnErrorWithItsReason) {
  const auto capture = [&] {
    stream_->begin_capture();
    device_->copy(to_.data(), from_.data(), 16, *stream_);
    return stream_->end_capture();
  };
  expect_errors({{"cudaStreamEndCapture", capture}});
  stream_->abandon_capture();
  expect_errors({{"cudaGraphInstantiate", capture}});
  const std::unique_ptr<Graph> graph = capture();
  expect_errors({{"cudaGraphLaunch", [&] { graph->launch(*stream_); }}});
}

TEST_F(FailingWork, WithoutMemoryNamesWhatItIsFor) {
  const auto allocate = [&] { const Array<int> array(*device_, 100, "numbers"); };
  {
    const auto calls = cuda_calls::failing("cudaMallocAsync", cudaErrorMemoryAllocation);
    EXPECT_THAT(error_of(allocate), HasSubstr("out of GPU memory: 400 B for numbers"));
  }
  {
    const auto calls = cuda_calls::failing("cudaHostAlloc", cudaErrorMemoryAllocation);
    EXPECT_THAT(error_of([&] { const HostArray<int> array(*device_, 100, "numbers"); }),
                HasSubstr("out of pinned host memory: 400 B for numbers"));
  }
  EXPECT_EQ(error_of(allocate), "");
}

/// The pool may keep freed memory in sizes that do not fit.
TEST_F(FailingWork, WithoutMemoryAtFirstSucceedsOnceThePoolIsEmptied) {
  const simt::OnCalls calls([trimmed = false](const std::string& call) mutable {
    trimmed |= call.starts_with("cudaMemPoolTrimTo");
    return call == "cudaMallocAsync" && !trimmed ? cudaErrorMemoryAllocation : cudaSuccess;
  });
  EXPECT_EQ(error_of([&] { const Array<int> array(*device_, 100, "numbers"); }), "");
}

TEST(CudaCalls, AMissingGpuIsExplained) {
  for (const auto& [error, reason] :
       {std::pair(cudaErrorNoDevice, std::string("the driver offers none")),
        std::pair(cudaErrorInsufficientDriver,
                  std::string("the NVIDIA driver is missing, or too old for CUDA 13.0")),
        std::pair(cudaErrorInitializationError, std::string("initialization error"))}) {
    const simt::OnCalls calls([chosen = error](const std::string& call) {
      return call == "cudaGetDeviceCount" ? chosen : cudaSuccess;
    });
    EXPECT_EQ(cuda_device_count(), 0);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    EXPECT_EQ(usage_error_of([&] { make_cuda_device(0); }),
              "device cuda: no GPU here: " + reason + "; `--device cpu` runs without one");
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
}

}  // namespace
}  // namespace dlrm
#endif
