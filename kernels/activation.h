#pragma once
// Activations of layers that no library's epilogue computes. See Ops.
#include <cuda_runtime.h>

#include "dlrm/core/activation.h"
#include "dlrm/core/view.h"

namespace dlrm::kernels {

/// y = act(p + bias), z = p + bias. bias [cols] fp32 or null. z.data may be null. p may alias y or
/// z.
void activate(Activation act, const Matrix& p, const float* bias, const Matrix& z, const Matrix& y,
              cudaStream_t stream);
/// dy *= act'(z), computed from z if needs_input(act), otherwise from y. The other one is not read.
void activate_backward(Activation act, const Matrix& y, const Matrix& z, const Matrix& dy,
                       cudaStream_t stream);
/// Sets all elements of m to 0.
void clear(const Matrix& m, cudaStream_t stream);

}  // namespace dlrm::kernels
