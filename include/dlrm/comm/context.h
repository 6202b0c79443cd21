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
  Communicator& comm;
  Trace& trace;
  const Log& log;
};

}  // namespace dlrm
