#pragma once
// Lets each call of CUDA fail in turn, in the emulator.
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/core/error.h"
#include "dlrm/device/cuda/runtime.h"
#include "dlrm/device/device.h"

#include "error_of.h"
#include "simt/simt.h"

namespace dlrm::cuda_calls {

struct Scenario {
  const char* name;
  std::function<void(Device&)> act;
  bool polls = false;  ///< the host makes progress while it waits
};

inline size_t bytes_on_gpu() {
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  return total - free;
}

/// Calls of `name` on this thread fail with `error`.
inline simt::OnCalls failing(const std::string& name, cudaError_t error) {
  return simt::OnCalls([=, thread = std::this_thread::get_id()](const std::string& call) {
    const bool fails =
        std::this_thread::get_id() == thread && call.substr(0, call.find(' ')) == name;
    return fails ? error : cudaSuccess;
  });
}

/// Memory that is not returned would stay, and a capture whose state is unknown goes on.
inline bool may_fail(const std::string& call) {
  return call.find("Destroy") == std::string::npos && call.find("Free") == std::string::npos &&
         call != "cudaStreamIsCapturing";
}

inline bool allocates(const std::string& call) { return call.find("lloc") != std::string::npos; }

/// Runs a scenario on a device of its own. Call `at` fails with `error`. Only allocations lack
/// memory, and then `again` also when they are repeated. Returns whether there are so many calls.
inline bool expect_good_end(const Scenario& scenario, int at, cudaError_t error, bool again) {
  simt::set_seed(1);
  const size_t before = bytes_on_gpu();
  std::shared_ptr<Device> device = make_cuda_device(0);
  if (scenario.polls) device->set_progress([] {});
  const bool lacks_memory = error == cudaErrorMemoryAllocation;
  std::string failed;
  bool reached = false;
  const auto act = [&] { scenario.act(*device); };
  const std::string text = [&] {
    int number = 0;
    const auto thread = std::this_thread::get_id();
    const simt::OnCalls calls([&](const std::string& call) {
      if (std::this_thread::get_id() != thread) return cudaSuccess;
      const bool now = number++ == at;
      reached |= now;
      if (now && may_fail(call) && (!lacks_memory || allocates(call))) failed = call;
      return call == failed && (now || again) ? error : cudaSuccess;
    });
    return error_of(act);
  }();
  const std::string where = std::string(scenario.name) + ", " + failed + " fails";
  if (!text.empty()) {
    using ::testing::HasSubstr;
    const std::string reason = lacks_memory ? "out of " : cudaGetErrorString(error);
    EXPECT_THAT(text, ::testing::AnyOf(HasSubstr(reason), HasSubstr("captur"))) << where;
  }
  cudaGetLastError();
  EXPECT_EQ(device->bytes_in_use(), 0u) << where;
  EXPECT_EQ(error_of(act), "") << where << ": the device no longer works";
  device.reset();
  EXPECT_EQ(bytes_on_gpu(), before) << where << ": memory is lost";
  return reached;
}

/// Each call of each scenario fails in turn. It ends in an error with the reason, or where nothing
/// can be done, in none. No memory is lost, and the device can be used again.
inline void expect_good_ends(const std::vector<Scenario>& scenarios) {
  for (const Scenario& scenario : scenarios) {
    for (int at = 0; expect_good_end(scenario, at, cudaErrorInitializationError, false); ++at) {
      for (const bool again : {false, true}) {
        expect_good_end(scenario, at, cudaErrorMemoryAllocation, again);
      }
    }
  }
}

}  // namespace dlrm::cuda_calls
