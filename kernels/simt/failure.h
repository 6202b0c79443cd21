#pragma once
#include <stdexcept>

namespace simt {

/// A defect of a kernel, on its way to report().
class Failure : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Prints the defect and ends the program, or throws it as simt::Error where a test asked.
[[noreturn]] void report(const std::string& defect);

}  // namespace simt
