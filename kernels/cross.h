#pragma once
// A cross layer without its products. See Ops::cross_forward.
#include <cuda_runtime.h>

#include "dlrm/core/view.h"
#include "dlrm/ops/interaction.h"

namespace dlrm::kernels {

void cross_forward(const Matrix& x0, const Matrix& u, const Matrix& x, const Matrix& y,
                   cudaStream_t stream);
void cross_backward(const Matrix& x0, const Matrix& dy, const Matrix& du, cudaStream_t stream);
void cross_input_backward(const CrossInputBackward& o, cudaStream_t stream);

}  // namespace dlrm::kernels
