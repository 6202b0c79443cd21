#pragma once
#include <memory>
#include <string>

#include "dlrm/comm/communicator.h"
#include "dlrm/device/device.h"

namespace dlrm {

/// Why NCCL cannot be used in this process with this device; empty where it can.
std::string why_no_nccl(Device& device);

/// Of the library that this process finds; 22809 is 2.28.9.
int nccl_version();

/// Collective. The host communicator, of which it makes a duplicate, brings the ranks together.
std::unique_ptr<Communicator> make_nccl_comm(Communicator& host, Device& device);

}  // namespace dlrm
