#pragma once
// Cross-entropy of logits [b, 1]; see Ops::bce_with_logits.
#include <cuda_runtime.h>

#include "dlrm/core/view.h"

namespace dlrm::kernels {

/// Sums that bce_with_logits keeps aside.
int64_t bce_partial_sums(int64_t samples);
/// `partial`: bce_partial_sums(logits.rows) doubles of device memory.
void bce_with_logits(const Matrix& logits, const float* labels, float scale, double* loss,
                     const Matrix& dlogits, double* partial, cudaStream_t stream);
void sigmoid(const Matrix& logits, float* p, cudaStream_t stream);

}  // namespace dlrm::kernels
