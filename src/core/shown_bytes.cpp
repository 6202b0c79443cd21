#include "dlrm/core/shown_bytes.h"

#include <fmt/core.h>

namespace dlrm {

std::string shown_bytes(size_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= size_t{1} << 30) return fmt::format("{:.2f} GiB", value / 0x1p30);
  if (bytes >= size_t{1} << 20) return fmt::format("{:.1f} MiB", value / 0x1p20);
  if (bytes >= size_t{1} << 10) return fmt::format("{:.1f} KiB", value / 0x1p10);
  return fmt::format("{} B", bytes);
}

}  // namespace dlrm
