#pragma once
// Layer normalisation. See LayerNormForward and LayerNormBackward.
#include <cstdint>

#include <cuda_runtime.h>

#include "dlrm/ops/layer_norm.h"

namespace dlrm::kernels {

/// o.means, o.inverse_spreads and z ← scale ⊙ n + shift, before the activation.
void layer_norm_forward(const LayerNormForward& o, const Matrix& z, cudaStream_t stream);

/// The number of floats that `partial` needs.
int64_t layer_norm_partial(const Matrix& dz);
/// In three launches. dz has rows and columns.
void layer_norm_backward(const LayerNormBackward& o, float* partial, cudaStream_t stream);

}  // namespace dlrm::kernels
