#include "draw_kernel.h"

namespace dlrm {

const DrawKernels& draw_kernels_baseline() { return kKernels; }

}  // namespace dlrm
