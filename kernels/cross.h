#pragma once
// A cross layer without its products. See Ops::cross_forward.
#include <cuda_runtime.h>

#include "dlrm/core/view.h"

namespace dlrm::kernels {

void cross_forward(const Matrix& x0, const Matrix& u, const Matrix& x, const Matrix& y,
                   cudaStream_t stream);
/// dx0 += u ⊙ dy if `accumulate_dx0`, otherwise dx0 = u ⊙ dy.
void cross_backward(const Matrix& x0, const Matrix& u, const Matrix& dy, const Matrix& du,
                    const Matrix& dx0, bool accumulate_dx0, cudaStream_t stream);

}  // namespace dlrm::kernels
