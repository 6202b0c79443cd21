#pragma once
#include <memory>
#include <string>

#include "dlrm/comm/communicator.h"
#include "dlrm/device/device.h"

namespace dlrm {

enum class DeviceCommKind : uint8_t {
  kAuto,    ///< NCCL if each rank has its own GPU and NCCL can be loaded, otherwise staged
  kNccl,    ///< between GPUs
  kStaged,  ///< through host memory and the host communicator
};

struct DeviceCommOptions {
  DeviceCommKind kind = DeviceCommKind::kAuto;
};

/// Returns a communicator for memory of `device`, among the ranks of `host`. Collective. All ranks
/// pass the same options and get the same kind. Both arguments must outlive the result. Throws
/// usage_error if the requested kind is not available; the message names an alternative.
std::unique_ptr<Communicator> make_device_comm(Communicator& host, Device& device,
                                               const DeviceCommOptions& options = {});

/// Returns a name of the GPU that is unique among all nodes, at most 63 characters. Ranks with
/// equal names share a GPU. Empty for a CPU, in a build without CUDA.
std::string gpu_identity(Device& device);

}  // namespace dlrm
