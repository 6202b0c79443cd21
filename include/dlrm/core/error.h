#pragma once
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/core.h>

namespace dlrm {

/// The exit code of a program, the same on every rank.
enum class ExitCode : int {
  kDone = 0,
  kUsage = 2,      ///< bad usage, config or data, or too little memory, known before the first step
  kFailure = 3,    ///< a failure while running
  kStopped = 130,  ///< stopped on request, after saving
};

/// An error that ends the program with `code()`. Its text has one line, two at most. It says what
/// is wrong, where (file, line, key, record), and what would be right.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& text) : std::runtime_error(text), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// Makes an error for bad usage, config or data: exit code 2. Takes the arguments of fmt::format.
template <class... Args>
Error usage_error(fmt::format_string<Args...> format, Args&&... args) {
  return Error(ExitCode::kUsage, fmt::format(format, std::forward<Args>(args)...));
}

/// Makes an error for a failure while running: exit code 3.
template <class... Args>
Error run_error(fmt::format_string<Args...> format, Args&&... args) {
  return Error(ExitCode::kFailure, fmt::format(format, std::forward<Args>(args)...));
}

/// Throws a run_error naming file and line. For conditions that fail only if this program has a
/// defect.
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& detail);

}  // namespace dlrm

/// DLRM_CHECK(condition, "format", args...): an internal invariant, checked in every build.
#define DLRM_CHECK(condition, ...)                                                             \
  do {                                                                                         \
    if (!(condition))                                                                          \
      ::dlrm::check_failed(__FILE__, __LINE__, #condition, ::dlrm::detail::text(__VA_ARGS__)); \
  } while (0)

namespace dlrm::detail {
inline std::string text() { return {}; }
template <class... Args>
std::string text(fmt::format_string<Args...> format, Args&&... args) {
  return fmt::format(format, std::forward<Args>(args)...);
}
}  // namespace dlrm::detail
