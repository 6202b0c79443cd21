#pragma once
#include <memory>
#include <utility>

#include "dlrm/comm/communicator.h"
#include "dlrm/comm/context.h"
#include "dlrm/core/log.h"
#include "dlrm/core/trace.h"
#include "dlrm/device/device.h"

namespace dlrm {

/// The only rank of a job, on a device, for what a test builds on its context.
struct OneRank {
  explicit OneRank(std::shared_ptr<Device> on) : device(std::move(on)) {}

  std::shared_ptr<Device> device;
  std::unique_ptr<Stream> stream = device->make_stream();
  std::unique_ptr<Communicator> comm = make_self_comm();
  Trace trace;
  Log log;
  Context context{*device, *stream, *comm, trace, log};
};

}  // namespace dlrm
