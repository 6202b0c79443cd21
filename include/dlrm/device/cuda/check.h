#pragma once
#include <cuda_runtime.h>

namespace dlrm::cuda {

/// Throws run_error with `call` and CUDA's text if `status` is an error.
void check(cudaError_t status, const char* call);

}  // namespace dlrm::cuda

/// Wraps a call of the CUDA runtime that must succeed: DLRM_CUDA_CHECK(cudaMemsetAsync(...)).
#define DLRM_CUDA_CHECK(...) ::dlrm::cuda::check((__VA_ARGS__), #__VA_ARGS__)
