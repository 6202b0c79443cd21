#pragma once
#include <memory>

#include "dlrm/comm/communicator.h"
#include "dlrm/device/device.h"

namespace dlrm {

/// Device buffers over a host communicator: copied to host memory, exchanged there, copied back.
/// Several ranks may share one device. Sums are made by the host communicator, and so are bitwise
/// its own. Pending::wait(Stream&) blocks the host where there are several ranks. Collective:
/// duplicates `host`. The device outlives it.
std::unique_ptr<Communicator> make_staged_comm(Communicator& host, Device& device);

}  // namespace dlrm
