#pragma once
// Cross layers without their products. See CrossForward.
#include <cuda_runtime.h>

#include "dlrm/core/view.h"
#include "dlrm/ops/interaction.h"

namespace dlrm::kernels {

void cross_forward(const Matrix& x0, const Matrix& t, const Matrix& y, cudaStream_t stream);
void cross_backward(const Matrix& x0, const Matrix& dy, const Matrix& du, cudaStream_t stream);
void cross_input_backward(const CrossInputBackward& o, cudaStream_t stream);

}  // namespace dlrm::kernels
