#include "dlrm/core/isa.h"

#include <cstdlib>

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

/// The variable is read once, so each value needs a process of its own. No test of this program
/// asks for a set itself.
[[noreturn]] void end_with_sets(const char* value) {
  value ? setenv("DLRM_MAX_CPU_ISA", value, 1) : unsetenv("DLRM_MAX_CPU_ISA");
  try {
    std::exit(10 * static_cast<int>(isa_limit()) + static_cast<int>(vector_isa()));
  } catch (const Error& error) {
    std::fputs(error.what(), stderr);
    std::exit(100 + static_cast<int>(error.code()));
  }
}

/// Whether a process ended with this limit, and vector code that respects it.
auto limited_to(Isa limit) {
  return [limit](int status) {
    const int code = WEXITSTATUS(status);
    return WIFEXITED(status) && code / 10 == static_cast<int>(limit) &&
           code % 10 <= static_cast<int>(std::min(limit, Isa::kAvx512));
  };
}

TEST(IsaLimit, IsWhatTheVariableNames) {
  EXPECT_EXIT(end_with_sets("avx2"), limited_to(Isa::kAvx2), "");
  EXPECT_EXIT(end_with_sets("avx512"), limited_to(Isa::kAvx512), "");
  EXPECT_EXIT(end_with_sets("amx"), limited_to(Isa::kAmx), "");
  EXPECT_EXIT(end_with_sets(nullptr), limited_to(Isa::kAmx), "");
}

TEST(IsaLimit, AnUnknownSetIsAUsageErrorThatNamesTheVariable) {
  for (const char* value : {"", "AVX2", "sse", "baseline", "avx512 "}) {
    EXPECT_EXIT(end_with_sets(value), ::testing::ExitedWithCode(102), "DLRM_MAX_CPU_ISA");
  }
}

}  // namespace
}  // namespace dlrm
