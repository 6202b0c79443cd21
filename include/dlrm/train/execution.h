#pragma once
#include <memory>

#include "dlrm/comm/context.h"
#include "dlrm/config/run_config.h"
#include "dlrm/ops/ops.h"
#include "dlrm/plan/plan.h"
#include "dlrm/train/machine.h"

namespace dlrm {

/// The device of one rank, the stream that orders its work, and the communicator among the ranks'
/// devices.
class Execution {
 public:
  /// Follows `config.device` and `config.comm`. `auto` takes GPUs if this program was built for
  /// them and every rank's machine has one. A rank takes the GPU of its local number, modulo the
  /// number of GPUs. Collective. A usage_error names the missing part.
  Execution(Communicator& comm, const RunConfig& config, const MachineShare& share);
  /// Waits for the device.
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  Device& device() { return *device_; }
  Context context(Trace& trace, const Log& log);
  /// `threads` is used on a CPU. With `check` every operation is compared with the reference.
  std::unique_ptr<Ops> make_ops(int threads, bool check);
  /// The memory that a plan may use: an equal part of the free memory of a rank's GPU, and an equal
  /// part of its machine's memory. Without a GPU only the latter. Of all ranks the least, so that
  /// all make the same plan.
  const PlanOptions& plan_options() const { return plan_options_; }

 private:
  Communicator& comm_;
  const bool tf32_;
  const bool pin_algorithms_;
  const int threads_;  ///< on the host
  std::shared_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Communicator> device_comm_;
  PlanOptions plan_options_;
};

}  // namespace dlrm
