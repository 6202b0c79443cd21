#pragma once
#include <string>
#include <vector>

#include <fmt/format.h>

namespace dlrm {

inline constexpr double kMiB = 1024.0 * 1024.0;
inline constexpr double kGiB = 1024.0 * kMiB;

/// Three decimals below 10 GiB, otherwise one.
inline std::string gib_text(double bytes) {
  const double gib = bytes / kGiB;
  return gib < 10 ? fmt::format("{:.3f}", gib) : fmt::format("{:.1f}", gib);
}

/// The names in quotes. Of more than eight, the first eight and how many there are besides.
inline std::string listed_names(const std::vector<std::string>& names) {
  constexpr size_t kNamed = 8;
  std::string text;
  for (size_t i = 0; i < names.size() && i < kNamed; ++i) {
    text += fmt::format("{}'{}'", i > 0 ? ", " : "", names[i]);
  }
  return names.size() > kNamed ? fmt::format("{}, {} more", text, names.size() - kNamed) : text;
}

inline const char* plural(int64_t count) { return count == 1 ? "" : "s"; }

}  // namespace dlrm
