#pragma once
#include <cuda_runtime.h>

#include "dlrm/device/cuda/check.h"
#include "dlrm/device/device.h"

namespace dlrm::cuda {

/// The CUDA stream of a Stream, and the CUDA event of an Event. A CUDA device must have made it.
cudaStream_t native(Stream& stream);
cudaEvent_t native(Event& event);

/// Whether work queued on `stream` is being captured into a graph. If so, the caller must not
/// allocate, time or wait.
bool capturing(cudaStream_t stream);

struct GpuFacts {
  int index = 0;
  int major = 0, minor = 0;  ///< compute capability
};
/// The facts of the GPU of `device`. make_cuda_device must have made it.
GpuFacts facts(Device& device);

}  // namespace dlrm::cuda
