#pragma once
#include <memory>
#include <string>

#include "dlrm/comm/communicator.h"
#include "dlrm/device/device.h"

namespace dlrm::comm {

/// Returns why this process cannot use NCCL with this device; empty: it can.
std::string why_no_nccl(Device& device);

/// Version of the NCCL library that this process loads; 22809 is 2.28.9.
int nccl_version();

/// Returns an NCCL communicator among the ranks of `host`, of which it keeps a duplicate. No rank
/// may have a reason of why_no_nccl(). Collective.
std::unique_ptr<Communicator> make_nccl_comm(Communicator& host, Device& device);

}  // namespace dlrm::comm
