#pragma once
#include <functional>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "dlrm/core/error.h"

namespace dlrm {

/// The text of the Error that `call` throws. Empty without one. The error has this exit code, if
/// there is one.
inline std::string error_of(const std::function<void()>& call,
                            std::optional<ExitCode> code = std::nullopt) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code.value_or(error.code())) << error.what();
    return error.what();
  }
  return "";
}

/// The text of a usage_error(), and of a run_error().
inline std::string usage_error_of(const std::function<void()>& call) {
  return error_of(call, ExitCode::kUsage);
}
inline std::string run_error_of(const std::function<void()>& call) {
  return error_of(call, ExitCode::kFailure);
}

}  // namespace dlrm
