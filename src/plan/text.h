#pragma once
#include <string>

#include <fmt/format.h>

namespace dlrm {

inline constexpr double kMiB = 1024.0 * 1024.0;
inline constexpr double kGiB = 1024.0 * kMiB;

/// Three decimals below 10 GiB, otherwise one.
inline std::string gib_text(double bytes) {
  const double gib = bytes / kGiB;
  return gib < 10 ? fmt::format("{:.3f}", gib) : fmt::format("{:.1f}", gib);
}

inline const char* plural(int64_t count) { return count == 1 ? "" : "s"; }

}  // namespace dlrm
