#pragma once
#include "dlrm/core/error.h"

namespace dlrm {

/// The largest value of --threads.
constexpr int kMostToolThreads = 1024;

/// The error if the system starts fewer threads than --threads says.
inline Error too_many_threads(int threads) {
  return usage_error("--threads {}: this system does not start so many", threads);
}

}  // namespace dlrm
