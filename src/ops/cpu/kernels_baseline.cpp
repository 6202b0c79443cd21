#include "cpu/kernels_body.h"

namespace dlrm::cpu {

const Kernels& baseline_kernels() {
  static constexpr Kernels kernels = kernels_named("baseline");
  return kernels;
}

}  // namespace dlrm::cpu
