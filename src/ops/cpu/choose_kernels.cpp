#include "dlrm/core/error.h"
#include "dlrm/core/isa.h"

#include "cpu/kernels.h"

namespace dlrm::cpu {
namespace {

const Kernels& kernels_of(Isa isa) { return isa == Isa::kAvx2 ? avx2_kernels() : avx512_kernels(); }

}  // namespace

const Kernels& choose_kernels(const std::string& isa) {
  if (isa.empty()) return kernels_of(vector_isa());
  for (const Isa candidate : {Isa::kAvx2, Isa::kAvx512}) {
    if (isa == name_of(candidate) && candidate <= vector_isa()) return kernels_of(candidate);
  }
  throw usage_error(
      "instruction set '{}' is unknown, not in this processor or beyond DLRM_MAX_CPU_ISA: "
      "avx2, avx512 or empty",
      isa);
}

}  // namespace dlrm::cpu
