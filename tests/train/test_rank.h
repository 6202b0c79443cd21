#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/core/error.h"
#include "dlrm/device/device.h"
#include "dlrm/train/execution.h"

#include "error_of.h"

namespace dlrm {

/// What a rank needs to train a model, on the device of its configuration. A CPU uses one thread.
/// If `traced`, stages are timed.
struct TestRank {
  TestRank(Communicator& comm, const RunConfig& config, bool traced = false)
      : trace(traced),
        log(comm.rank()),
        execution(comm, config, machine_share(comm)),
        context(execution.context(trace, log)),
        ops(execution.make_ops(1, false)) {}

  Trace trace;
  Log log;
  Execution execution;
  Context context;
  std::unique_ptr<Ops> ops;
};

/// A GPU or the emulator, if this build has one.
inline std::vector<DeviceKind> gpus() {
  return cuda_device_count() > 0 ? std::vector{DeviceKind::kCuda} : std::vector<DeviceKind>{};
}
/// The CPU, and those.
inline std::vector<DeviceKind> devices() {
  std::vector<DeviceKind> all = gpus();
  all.insert(all.begin(), DeviceKind::kCpu);
  return all;
}

}  // namespace dlrm
