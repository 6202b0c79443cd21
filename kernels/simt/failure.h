#pragma once
#include <stdexcept>

namespace simt {

/// A defect of a kernel, caught and passed to report().
class Failure : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Prints the defect and ends the program. Within ErrorsThrow it throws simt::Error instead.
[[noreturn]] void report(const std::string& defect);

}  // namespace simt
