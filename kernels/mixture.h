#pragma once
// Mixtures of experts. See MixForward and MixBackward.
#include <cuda_runtime.h>

#include "dlrm/ops/mixture.h"

namespace dlrm::kernels {

void mix_forward(const MixForward& o, cudaStream_t stream);
void mix_backward(const MixBackward& o, cudaStream_t stream);

}  // namespace dlrm::kernels
