#pragma once
// Activations of layers, where no library's epilogue serves; see Ops.
#include <cuda_runtime.h>

#include "dlrm/core/view.h"

namespace dlrm::kernels {

/// As dlrm::Act; kNone passes on.
enum class Curve { kNone, kRelu, kGelu, kSilu, kSigmoid, kTanh };

/// y = curve(p + bias), z = p + bias. bias [cols] fp32 or null; z.data may be null. p may be y or
/// z.
void activate(Curve curve, const Matrix& p, const float* bias, const Matrix& z, const Matrix& y,
              cudaStream_t stream);
/// dy *= curve'(z), from z for gelu and silu, from y for the others (the other one is not read).
void activate_backward(Curve curve, const Matrix& y, const Matrix& z, const Matrix& dy,
                       cudaStream_t stream);
/// m = 0.
void clear(const Matrix& m, cudaStream_t stream);

}  // namespace dlrm::kernels
