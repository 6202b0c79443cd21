#include "dlrm/core/error.h"

#include "cpu/kernels.h"

namespace dlrm::cpu {
namespace {

bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

}  // namespace

const Kernels& choose_kernels(const std::string& isa) {
  if (isa.empty()) {
    return has_avx512() ? avx512_kernels() : has_avx2() ? avx2_kernels() : baseline_kernels();
  }
  if (isa == "baseline") return baseline_kernels();
  if (isa == "avx2" && has_avx2()) return avx2_kernels();
  if (isa == "avx512" && has_avx512()) return avx512_kernels();
  throw usage_error(
      "instruction set '{}' is unknown or not in this processor: baseline, avx2, "
      "avx512 or empty",
      isa);
}

}  // namespace dlrm::cpu
