#pragma once
#include <cuda_runtime.h>

#include "dlrm/device/device.h"

namespace dlrm::cuda {

/// The CUDA stream of a Stream that a CUDA device made, and the event of such an Event.
cudaStream_t native(Stream& stream);
cudaEvent_t native(Event& event);

/// Throws run_error with `call` and CUDA's own words where `status` is an error.
void check(cudaError_t status, const char* call);

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

/// DLRM_CUDA_CHECK(cudaMemsetAsync(...)): a call of the CUDA runtime that must succeed.
#define DLRM_CUDA_CHECK(...) ::dlrm::cuda::check((__VA_ARGS__), #__VA_ARGS__)
