#include "draw_kernel.h"

namespace dlrm {

const DrawKernels& draw_kernels_avx2() { return kKernels; }

}  // namespace dlrm
