#pragma once
#include <cuda_runtime.h>

#include "dlrm/device/cuda/check.h"
#include "dlrm/device/device.h"

namespace dlrm::cuda {

/// The CUDA stream of a Stream that a CUDA device made, and the event of such an Event.
cudaStream_t native(Stream& stream);
cudaEvent_t native(Event& event);

/// Whether what is queued on `stream` is being captured into a graph: nothing may then be
/// allocated, timed or waited for.
bool capturing(cudaStream_t stream);

/// Figures of the GPU that a program shows and plans by.
struct GpuFacts {
  int index = 0;
  int major = 0, minor = 0;  ///< compute capability
  int processors = 0;        ///< streaming multiprocessors
  size_t memory_bytes = 0;   ///< all of it, whoever uses it
  size_t free_bytes = 0;     ///< when asked
};
/// Of the GPU behind `device`, which make_cuda_device made.
GpuFacts facts(Device& device);

}  // namespace dlrm::cuda
