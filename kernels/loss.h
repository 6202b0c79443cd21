#pragma once
// Cross-entropy of logits [b, 1]. See Ops::bce_with_logits.
#include <cuda_runtime.h>

#include "dlrm/core/view.h"

namespace dlrm::kernels {

/// The number of doubles that `partial` must hold.
int64_t bce_partial_sums(int64_t samples);
/// `weights`: null if all are 1. `partial`: bce_partial_sums(logits.rows) doubles in device memory.
void bce_with_logits(const Matrix& logits, const float* labels, const float* weights, float scale,
                     double* loss, const Matrix& dlogits, double* partial, cudaStream_t stream);
void sigmoid(const Matrix& logits, float* p, cudaStream_t stream);

}  // namespace dlrm::kernels
