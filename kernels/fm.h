#pragma once
// The factorization machine's second-order term. See FmForward and FmBackward.
#include <cuda_runtime.h>

#include "dlrm/core/view.h"

namespace dlrm::kernels {

void fm_forward(const Matrix& x, const Matrix& e, const Matrix& z, cudaStream_t stream);
/// dx.data may be null.
void fm_backward(const Matrix& x, const Matrix& e, const Matrix& dz, const Matrix& dx,
                 const Matrix& de, cudaStream_t stream);

}  // namespace dlrm::kernels
