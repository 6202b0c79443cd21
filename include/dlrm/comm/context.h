#pragma once
#include "dlrm/comm/communicator.h"
#include "dlrm/core/log.h"
#include "dlrm/core/trace.h"
#include "dlrm/device/device.h"

namespace dlrm {

/// One rank's surroundings. Passed by reference. Owns nothing: all members outlive it.
struct Context {
  Device& device;
  Stream& stream;      ///< the main stream of `device`
  Communicator& comm;  ///< for host memory: control, ids, metrics
  Trace& trace;
  const Log& log;
  Communicator* gpu_comm = nullptr;  ///< for device memory; null: `comm` serves it
  int threads = 0;                   ///< for work on the host; 0: as many as the operations use

  /// Returns the communicator for memory of `device`: pooled vectors, gradients.
  Communicator& device_comm() const { return gpu_comm ? *gpu_comm : comm; }
  /// Returns the number of threads for work on the host. Operations use `of_operations`.
  int host_threads(int of_operations) const { return threads > 0 ? threads : of_operations; }
};

}  // namespace dlrm
