#pragma once
// Dropout. See Ops::dropout.
#include <cuda_runtime.h>

#include "dlrm/ops/dropout.h"

namespace dlrm::kernels {

void dropout(const Dropout& o, cudaStream_t stream);

}  // namespace dlrm::kernels
