#pragma once
#include <memory>
#include <string>

#include "dlrm/comm/communicator.h"
#include "dlrm/device/device.h"

namespace dlrm {

enum class DeviceCommKind : uint8_t {
  kAuto,    ///< NCCL where each rank has a GPU of its own and NCCL is there, else staged
  kNccl,    ///< between GPUs
  kStaged,  ///< through host memory, over the host communicator
};

struct DeviceCommOptions {
  DeviceCommKind kind = DeviceCommKind::kAuto;
};

/// A communicator among the ranks of `host` for memory of `device`. Collective; the kind is the
/// same on every rank. Both arguments outlive it. Throws usage_error saying what would be right
/// where the kind asked for cannot be had.
std::unique_ptr<Communicator> make_device_comm(Communicator& host, Device& device,
                                               const DeviceCommOptions& options = {});

/// Names the GPU of `device` among all machines, in at most 63 characters: ranks that name the
/// same share one. Empty for a CPU of a build without CUDA.
std::string gpu_identity(Device& device);

}  // namespace dlrm
