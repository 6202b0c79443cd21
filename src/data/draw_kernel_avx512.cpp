#include "draw_kernel.h"

namespace dlrm {

const DrawKernels& draw_kernels_avx512() { return kKernels; }

}  // namespace dlrm
