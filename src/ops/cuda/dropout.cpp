#include "kernels/dropout.h"

#include "cuda/parts.h"

namespace dlrm {

void CudaOps::run(const Dropout& o) { kernels::dropout(o, native_); }

}  // namespace dlrm
