#include "cpu/kernels_body.h"

namespace dlrm::cpu {

const Kernels& avx512_kernels() {
  static constexpr Kernels kernels = kernels_named("avx512");
  return kernels;
}

}  // namespace dlrm::cpu
