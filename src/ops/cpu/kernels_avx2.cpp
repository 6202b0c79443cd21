#include "cpu/kernels_body.h"

namespace dlrm::cpu {

const Kernels& avx2_kernels() {
  static constexpr Kernels kernels = kernels_named("avx2");
  return kernels;
}

}  // namespace dlrm::cpu
