#include "dlrm/core/isa.h"

#include <algorithm>
#include <cstdlib>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

constexpr std::string_view kNames[] = {"avx2", "avx512", "amx"};

Isa read_limit() {
  const char* text = std::getenv("DLRM_MAX_CPU_ISA");
  if (text == nullptr) return Isa::kAmx;
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    if (name_of(isa) == text) return isa;
  }
  throw usage_error("DLRM_MAX_CPU_ISA is '{}', should be avx2, avx512 or amx", text);
}

Isa of_processor() {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("f16c");
  if (!avx2) {
    throw usage_error(
        "this processor has no AVX2, FMA or F16C: dlrm-train needs x86-64-v3, as Intel's "
        "processors "
        "have since Haswell (2013) and AMD's since Excavator (2015)");
  }
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return avx512 ? Isa::kAvx512 : Isa::kAvx2;
}

}  // namespace

std::string_view name_of(Isa isa) { return kNames[static_cast<int>(isa)]; }

Isa isa_limit() {
  static const Isa limit = read_limit();
  return limit;
}

Isa vector_isa() {
  static const Isa best = of_processor();
  return std::min(best, isa_limit());
}

}  // namespace dlrm
