#include "dlrm/core/log.h"

#include <ctime>

#include <unistd.h>

namespace dlrm {

void Log::line(const std::string& text) const {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  const std::string whole =
      fmt::format("{:02}:{:02}:{:02} {}\n", local.tm_hour, local.tm_min, local.tm_sec, text);
  // One call, so that lines of several ranks do not mix.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, whole.data(), whole.size());
}

}  // namespace dlrm
