#pragma once
// Dot interaction of x [b, D] and e [b, F·D]. See Ops::dot_forward. All matrices have one type,
// fp32 or bf16.
#include <cuda_runtime.h>

#include "dlrm/core/view.h"

namespace dlrm::kernels {

/// Any F, D and strides, computed in fp32 (dot_portable.cu).
void dot_forward_portable(const Matrix& x, const Matrix& e, const Matrix& z, cudaStream_t stream);
void dot_backward_portable(const Matrix& x, const Matrix& e, const Matrix& dz, const Matrix& dx,
                           const Matrix& de, cudaStream_t stream);

/// True if the tensor-core kernels of dot_mma.cu support these: at most 32 vectors, D a multiple of
/// 4 up to 1024, rows of x and e aligned to four elements.
bool dot_mma_takes(const Matrix& x, const Matrix& e);
void dot_forward_mma(const Matrix& x, const Matrix& e, const Matrix& z, cudaStream_t stream);
/// Requires dot_mma_takes for (x, e) and for (dx, de).
void dot_backward_mma(const Matrix& x, const Matrix& e, const Matrix& dz, const Matrix& dx,
                      const Matrix& de, cudaStream_t stream);

}  // namespace dlrm::kernels
