#include "kernels/mixture.h"

#include "cuda/parts.h"

namespace dlrm {

void CudaOps::run(const MixForward& o) { kernels::mix_forward(o, native_); }
void CudaOps::run(const MixBackward& o) { kernels::mix_backward(o, native_); }

}  // namespace dlrm
