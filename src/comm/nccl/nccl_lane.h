#pragma once
#include <cstddef>
#include <memory>

#include "dlrm/device/cuda/runtime.h"
#include "dlrm/device/device.h"

#include "nccl_types.h"

namespace dlrm::comm {

/// One NCCL communicator of a session, and the stream of its calls.
struct NcclLane {
  explicit NcclLane(Device& device)
      : stream(device.make_urgent_stream()),
        native(cuda::native(*stream)),
        scratch_(device, 0, "nccl scratch") {}

  /// Returns device memory for one call. It is valid until the stream has passed the call.
  std::byte* scratch(size_t bytes) {
    scratch_.reserve(bytes);
    return scratch_.data();
  }

  const std::unique_ptr<Stream> stream;
  const cudaStream_t native;
  ncclComm_t comm = nullptr;

 private:
  Array<std::byte> scratch_;
};

}  // namespace dlrm::comm
