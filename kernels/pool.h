#pragma once
// Average pooling along a row. See Ops::average_pool_forward.
#include <cuda_runtime.h>

#include "dlrm/core/view.h"

namespace dlrm::kernels {

void average_pool_forward(const Matrix& e, int64_t window, const Matrix& y, cudaStream_t stream);
void average_pool_backward(const Matrix& dy, int64_t window, const Matrix& de, cudaStream_t stream);

}  // namespace dlrm::kernels
