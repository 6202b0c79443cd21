#pragma once
#include <memory>

#include "dlrm/comm/context.h"
#include "dlrm/config/run_config.h"
#include "dlrm/ops/ops.h"
#include "dlrm/plan/plan.h"
#include "dlrm/train/machine.h"

namespace dlrm {

/// What one rank of a run computes on: a device, the stream that orders its work, and the way to
/// the other ranks' devices.
class Execution {
 public:
  /// As `config.device` and `config.comm` ask. `auto` takes GPUs where this program was built for
  /// them and every rank's machine has one. A rank takes the GPU of its number on its machine,
  /// counted round. Collective; usage_error saying what is missing.
  Execution(Communicator& comm, const RunConfig& config, const MachineShare& share);
  /// Waits for the device.
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  Device& device() { return *device_; }
  Context context(Trace& trace, const Log& log);
  /// `threads` of a CPU; with `check` the reference runs beside every operation.
  std::unique_ptr<Ops> make_ops(int threads, bool check);
  /// What a plan may know: of the device's memory, an equal part of what is free on this rank's GPU
  /// or of the machine's memory; beside a GPU an equal part of the machine's too.
  PlanOptions plan_options() const;

 private:
  Communicator& comm_;
  const bool tf32_;
  const bool pin_algorithms_;
  const int threads_;  ///< of the host
  std::shared_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Communicator> device_comm_;
  const MachineShare share_;
  double memory_bytes_ = 0;
};

}  // namespace dlrm
