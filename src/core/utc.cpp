#include "dlrm/core/utc.h"

#include <fmt/chrono.h>

namespace dlrm {

std::string utc_text(std::time_t time) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(time));
}

}  // namespace dlrm
