#pragma once
#include "dlrm/comm/communicator.h"
#include "dlrm/core/log.h"
#include "dlrm/core/trace.h"
#include "dlrm/device/device.h"

namespace dlrm {

/// What a part of a rank needs of its surroundings. Passed by reference; owns nothing.
struct Context {
  Device& device;
  Stream& stream;
  Communicator& comm;  ///< among the hosts: control, ids, metrics
  Trace& trace;
  const Log& log;
  Communicator* gpu_comm = nullptr;  ///< among the devices, where that is another one
  int threads = 0;                   ///< of the host's own work; 0: as many as Ops computes with

  /// For what lies in device memory: pooled vectors, gradients.
  Communicator& device_comm() const { return gpu_comm ? *gpu_comm : comm; }
};

}  // namespace dlrm
