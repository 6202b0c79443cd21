#pragma once
#include "dlrm/core/error.h"

namespace dlrm::bench {

/// Throws usage_error if `what` takes more bytes than are available.
inline void check_memory(const char* what, double bytes, double available) {
  if (bytes <= available) return;
  throw usage_error("{} would take {:.1f} GiB of memory; {:.1f} GiB are available here", what,
                    bytes / 0x1p30, available / 0x1p30);
}

}  // namespace dlrm::bench
