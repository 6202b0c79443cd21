#pragma once
#include <string_view>

namespace dlrm {

/// Instruction sets of x86-64 for which there is code. Each includes those before it. kAvx2 stands
/// for AVX2, FMA and F16C, kAvx512 for its parts F, BW, VL and DQ, kAmx for whatever a library
/// knows beyond AVX-512.
enum class Isa { kAvx2, kAvx512, kAmx };

/// "avx2", "avx512" or "amx".
std::string_view name_of(Isa isa);

/// The set that DLRM_MAX_CPU_ISA names, kAmx if it is not set. Nothing beyond it is used, by
/// libraries neither. Throws usage_error if it names no set. Read once per process.
Isa isa_limit();

/// The best set for vector code that this processor has and the limit allows: at most kAvx512.
/// Throws usage_error on a processor without AVX2, FMA and F16C.
Isa vector_isa();

}  // namespace dlrm
