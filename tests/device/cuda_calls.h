#pragma once
// Lets each call of CUDA fail in turn, in the emulator.
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dlrm/core/error.h"
#include "dlrm/device/cuda/runtime.h"
#include "dlrm/device/device.h"

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

struct Ending {
  std::vector<std::string> calls;
  std::string text;
};

/// Memory that is not returned would stay.
inline bool may_fail(const std::string& call) {
  return call.find("Destroy") == std::string::npos && call.find("Free") == std::string::npos;
}

/// Runs a scenario on a device of its own. Call `at` fails with `error`, if there is one, and with
/// `again` also later calls of its name.
inline Ending end_of(const Scenario& scenario, int at, cudaError_t error, bool again = false) {
  Ending ending;
  simt::set_seed(1);
  const size_t before = bytes_on_gpu();
  std::shared_ptr<Device> device = make_cuda_device(0);
  int progress = 0;
  if (scenario.polls) device->set_progress([&] { ++progress; });
  {
    int number = 0;
    std::string failed;
    const auto thread = std::this_thread::get_id();
    const simt::OnCalls calls([&](const std::string& call) {
      if (std::this_thread::get_id() != thread) return cudaSuccess;
      ending.calls.push_back(call);
      if (number++ == at && may_fail(call)) failed = call;
      const bool fails = number - 1 == at || again;
      return call == failed && fails ? error : cudaSuccess;
    });
    try {
      scenario.act(*device);
      ending.text = "done";
    } catch (const Error& thrown) {
      ending.text = fmt::format("{}: {}", static_cast<int>(thrown.code()), thrown.what());
    }
  }
  if (cudaGetLastError() != cudaSuccess) ending.text += ", and CUDA's last error stays";
  if (device->bytes_in_use() > 0) ending.text += ", memory is in use";
  device.reset();
  if (bytes_on_gpu() != before) ending.text += ", memory is lost";
  return ending;
}

/// The calls of each scenario, and how it ends if one of them fails.
inline std::string report(const std::vector<Scenario>& scenarios) {
  std::ostringstream out;
  for (const Scenario& scenario : scenarios) {
    const Ending all = end_of(scenario, -1, cudaSuccess);
    out << scenario.name << ": " << all.text << "\n";
    for (size_t i = 0; i < all.calls.size(); ++i) {
      out << "  " << all.calls[i] << "\n";
      const int at = static_cast<int>(i);
      std::vector<Ending> endings{end_of(scenario, at, cudaErrorInitializationError)};
      if (all.calls[i].find("lloc") != std::string::npos) {
        for (const bool again : {false, true}) {
          endings.push_back(end_of(scenario, at, cudaErrorMemoryAllocation, again));
        }
      }
      for (const Ending& failed : endings) {
        if (failed.text != all.text) {
          out << "    fails: " << failed.text << "\n";
        } else if (failed.calls != all.calls) {
          const auto next = failed.calls.begin() + at + 1;
          out << "    fails, and then: "
              << fmt::format("{}\n", fmt::join(next, failed.calls.end(), " "));
        }
      }
    }
  }
  return out.str();
}

}  // namespace dlrm::cuda_calls
