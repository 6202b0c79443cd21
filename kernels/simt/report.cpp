// Reports a defect: one line and the end of the program, or an exception.
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "failure.h"
#include "simt/simt.h"

namespace simt {
namespace {

constexpr int kExitCode = 3;  // a failure at run time
std::atomic<int> throwing{0};

}  // namespace

ErrorsThrow::ErrorsThrow() { ++throwing; }
ErrorsThrow::~ErrorsThrow() { --throwing; }

void report(const std::string& defect) {
  if (throwing > 0) throw Error(defect);
  std::fprintf(stderr, "simt: %s\n", defect.c_str());
  std::fflush(stderr);
  std::_Exit(kExitCode);
}

}  // namespace simt
