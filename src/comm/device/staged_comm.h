#pragma once
#include <memory>

#include "dlrm/comm/communicator.h"
#include "dlrm/device/device.h"

namespace dlrm::comm {

/// Returns a communicator for device memory that copies it to host memory, exchanges it there over
/// a duplicate of `host`, and copies it back. Collective. The device must outlive it. Several ranks
/// may share a device. Sums have the same bits as those of `host`. With several ranks
/// Pending::wait(Stream&) blocks the host.
std::unique_ptr<Communicator> make_staged_comm(Communicator& host, Device& device);

}  // namespace dlrm::comm
